"""The apps that `flwr run` starts, on real devices and on a real server, by their settings.

In the project file that `flwr run` reads:

    [tool.flwr.app.components]
    clientapp = "understudy.federated.apps:client"
    serverapp = "understudy.federated.apps:server"

Flower wants app objects in a module, so these two are made when the module is imported; nothing
is read before a message comes.

A device's settings (`flower-supernode --node-config`): `encoder`, `data`, `hide`, and optionally
`keep`, `labels` (which kept ones are sent), `constraint`, `budget`, `kind`, `steps`, `part`,
`receipt`, `dataset` (the user's name for the data) and `home` (where the account book lies); with
`epsilon` and `delta` it sends through the Gaussian mechanism instead. The server's (run config):
`encoder`, `out`, `users`, and optionally `content`, `patience`, `epsilon`, `delta`, `sign` (a
private key file).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from understudy.encoders.file import read_encoder
from understudy.errors import UserError
from understudy.federated.agreement import Agreement
from understudy.federated.client import Device, client_app
from understudy.federated.contribution import LATENTS
from understudy.federated.server import server_app
from understudy.federated.user import User, own_records
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.filters.game import GameConfig
from understudy.methods.config import build_config
from understudy.privacy.ledger.account_book import Book, book_name
from understudy.privacy.local.channel import LocalChannel


def device_of(context: Context) -> Device:
    """A device by its settings."""
    settings = context.node_config
    encoder = read_encoder(Path(_setting(settings, "encoder")))
    data = _setting(settings, "data")
    records = own_records(encoder, data, str(settings.get("part", "")) or None)
    receipt = settings.get("receipt")
    home = settings.get("home")
    return Device(
        encoder,
        User(
            records,
            choice=_choice(settings),
            distortion=Distortion(
                str(settings.get("constraint", "kl")), float(settings.get("budget", 3.0))
            ),
            config=_game(settings),
            channel=_channel(settings, encoder.radius),
            labels=_names(str(settings["labels"])) if "labels" in settings else None,
            book=Book.open(
                str(settings.get("dataset") or book_name(data)),
                None if home is None else Path(str(home)),
            ),
        ),
        None if receipt is None else Path(str(receipt)),
    )


def collect(grid: Grid, context: Context) -> None:
    """The server by its settings: asks, merges, writes."""
    settings = context.run_config
    encoder = read_encoder(Path(_setting(settings, "encoder")))
    content = str(settings.get("content", LATENTS))
    epsilon, delta = (
        float(settings[name]) if name in settings else None for name in ("epsilon", "delta")
    )
    agreement = Agreement.of(encoder, content)
    if epsilon is not None or delta is not None:
        agreement = Agreement.local(encoder, content, epsilon, delta)
    app = server_app(
        encoder,
        agreement,
        Path(_setting(settings, "out")),
        users=int(_setting(settings, "users")),
        patience_s=float(settings.get("patience", 600.0)),
        signing_key=Path(str(settings["sign"])) if "sign" in settings else None,
    )
    app(grid, context)


client = client_app(device_of)
server = ServerApp()
server.main()(collect)


def _game(settings: Mapping[str, Any]) -> GameConfig:
    named = {name: str(settings[name]) for name in ("kind", "steps") if name in settings}
    found: GameConfig = build_config(GameConfig, named)
    return found


def _choice(settings: Mapping[str, Any]) -> Choice | None:
    if "epsilon" in settings:
        return None
    return Choice(_names(_setting(settings, "hide")), _names(str(settings.get("keep", ""))))


def _channel(settings: Mapping[str, Any], radius: float) -> LocalChannel | None:
    """No label comes along: a device that sends one must say by which mechanism, in Python."""
    if "epsilon" not in settings:
        return None
    return LocalChannel(radius, float(settings["epsilon"]), float(settings.get("delta", 1e-5)))


def _names(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _setting(settings: Mapping[str, Any], name: str) -> str:
    if name not in settings:
        raise UserError(f"the settings lack {name!r}; see understudy.federated.apps.")
    return str(settings[name])
