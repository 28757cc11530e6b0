"""Options that several commands share, and how lists among them are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Home = Annotated[
    Path | None,
    typer.Option(
        "--home",
        envvar="UNDERSTUDY_HOME",
        help="Where the account book lies.",
        show_default="~/.understudy",
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the method; repeatable."),
]
Public = Annotated[
    list[str] | None,
    typer.Option(metavar="[NAME=]DATA", help="Public data for the method; repeatable."),
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]FILE", help="Public weights, or their name in `weights`; repeatable."
    ),
]
Hide = Annotated[str | None, typer.Option(help="Attributes to hide, by comma.")]
Keep = Annotated[str | None, typer.Option(help="Attributes to keep, by comma.")]
Unit = Annotated[str | None, typer.Option(help="The column naming the person.")]
Count = Annotated[int | None, typer.Option(help="Declared number of units.")]
Size = Annotated[int | None, typer.Option(help="Crop and resize images to this side.")]
Channels = Annotated[int | None, typer.Option(help="1 for grey, 3 for colour.")]
DatasetName = Annotated[str | None, typer.Option(help="Your name for the data.")]
Delta = Annotated[float, typer.Option(help="At most 1 over the number of people.")]
Seed = Annotated[int, typer.Option(help="For everything but noise and sampling.")]
Runs = Annotated[Path, typer.Option(help="Where run folders lie (owner's).")]


def names(text: str | None) -> tuple[str, ...]:
    """`A,B` as names."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())
