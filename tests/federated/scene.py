"""A small world for the tests of this room: an encoder, users, and a grid that shows all."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.encoders.samples import DENSE, PUBLIC, encoder_of
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.encoders.encoder import Encoder
from understudy.encoders.file import write_encoder
from understudy.federated.agreement import Agreement
from understudy.federated.contribution import Contribution
from understudy.federated.user import User
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.filters.game import GameConfig

TWO = ("no", "yes")
SCHEMA = Schema(tuple(Attribute(name, TWO) for name in ("tone", "row", "side")))
QUICK = GameConfig(steps=5, batch=32, head_width=8, head_layers=1)


def encoder(radius: float = 2.0) -> Encoder:
    plain = encoder_of(DENSE, radius)
    return Encoder(plain.spec, radius, plain.encoder, plain.decoder, SCHEMA, PUBLIC)


def records(count: int = 60, seed: int = 0) -> Records:
    """Images whose brightness in each part tells the attributes."""
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, 2, count) for name in SCHEMA.names}
    images = rng.integers(0, 60, (count, 1, 8, 8), dtype=np.uint8)
    images[codes["tone"] == 1] += np.uint8(60)
    images[codes["row"] == 1, :, :4] += np.uint8(60)
    images[codes["side"] == 1, :, :, :4] += np.uint8(60)
    return Records(images, codes, SCHEMA, units=np.arange(count))


def user(
    seed: int = 0, hide: str = "tone", keep: tuple[str, ...] = ("row",), count: int = 60
) -> User:
    return User(records(count, seed), Choice((hide,), keep), Distortion("kl", 3.0), QUICK)


def contribution(seed: int = 0, **wishes: object) -> Contribution:
    made = encoder()
    return user(seed, **wishes).contribute(made, Agreement.of(made))  # type: ignore[arg-type]


def digits_encoder(path: Path) -> Path:
    """The file of an untrained encoder for the built-in digits."""
    schema = Schema((Attribute("label", tuple("0123456789")),))
    plain = encoder_of(DENSE, 2.0)
    write_encoder(path, Encoder(plain.spec, 2.0, plain.encoder, plain.decoder, schema, PUBLIC))
    return path
