"""`understudy methods`: what there is, and what fits some data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli import completion
from understudy.cli.bars import bars
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import (
    AsJson,
    Channels,
    Count,
    Device,
    DeviceKind,
    Label,
    Public,
    Size,
    Time,
    Unit,
    seconds_of,
)
from understudy.errors import UserError

if TYPE_CHECKING:
    from understudy.progress import Progress
    from understudy.run.listing import Listing


@guarded
def command(
    name: Annotated[
        str | None,
        typer.Argument(help="Show one method and its settings.", autocompletion=completion.methods),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option(
            "--for", help="Data to choose a method for.", autocompletion=completion.datasets
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="With a NAME: the settings of this preset.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="With --for: the budget.", show_default="10")
    ] = None,
    label: Label = None,
    unit: Unit = None,
    size: Size = None,
    channels: Channels = None,
    count: Count = None,
    public: Public = None,
    time: Time = None,
    device: Device = "auto",
    device_kind: DeviceKind = None,
    as_json: AsJson = False,
) -> None:
    """List the methods; with a NAME, its settings; with --for DATA, which to take."""
    from understudy.run.advice import describe_method, list_methods

    asked = {
        **{"epsilon": epsilon, "label": label, "unit": unit, "size": size, "channels": channels},
        **{"count": count, "public": tuple(public or ()) or None, "time": time},
        **{"device": None if device == "auto" else device, "device_kind": device_kind},
    }
    given = {option: value for option, value in asked.items() if value is not None}
    _refuse_unused(name, for_, preset, given)
    if name is not None:
        shown = describe_method(name, preset)
    elif for_ is not None:
        shown = _advice(for_, given, bars(as_json))
    else:
        shown = list_methods()
    if as_json:
        print_json(shown.to_json())
    else:
        typer.echo(shown.text())


def _refuse_unused(
    name: str | None, for_: str | None, preset: str | None, given: dict[str, Any]
) -> None:
    """An option that would be ignored is an error, not a silence."""
    if name is not None and for_ is not None:
        raise UserError("give a method's NAME or --for DATA, not both.")
    if preset is not None and name is None:
        raise UserError("--preset goes with a method's NAME; give that too.")
    if given and for_ is None:
        option = next(iter(given)).replace("_", "-")
        raise UserError(f"--{option} goes with --for DATA; give that too.")


def _advice(data: str, given: dict[str, Any], progress: Progress) -> Listing:
    from understudy.run.choosing.advise import USUAL_EPSILON, advise
    from understudy.run.config import RunConfig

    seconds = {"time": seconds_of(given["time"])} if "time" in given else {}
    return advise(RunConfig(data, **{"epsilon": USUAL_EPSILON, **given, **seconds}), progress)
