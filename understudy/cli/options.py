"""Options that several commands share, and how lists among them are read."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import completion
from understudy.errors import UserError

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
Preset = Annotated[
    str | None, typer.Option(help="Settings to start from; `understudy methods NAME` lists them.")
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
Label = Annotated[str | None, typer.Option(help="The attribute to learn.")]
Unit = Annotated[str | None, typer.Option(help="The column naming the person.")]
Data = Annotated[
    str,
    typer.Argument(
        help="Catalog name, folder, Parquet file or hf:name.", autocompletion=completion.datasets
    ),
]
MethodName = Annotated[
    str, typer.Option(help="See `understudy methods`.", autocompletion=completion.methods)
]
MethodOrBest = Annotated[
    str | None,
    typer.Option(
        "--method",
        help="See `understudy methods`.",
        show_default="what `methods --for DATA` recommends",
        autocompletion=completion.methods,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Fit settings into this time (90s, 10m, 2h).", show_default="10m"
    ),
]
DeviceKind = Annotated[
    str | None, typer.Option(help="Time for this kind of machine (cpu, h200), not this one.")
]
Count = Annotated[int | None, typer.Option(help="Declared number of units.")]
Size = Annotated[int | None, typer.Option(help="Crop and resize images to this side.")]
Channels = Annotated[int | None, typer.Option(help="1 for grey, 3 for colour.")]
DatasetName = Annotated[str | None, typer.Option(help="Your name for the data.")]
Delta = Annotated[float, typer.Option(help="At most 1 over the number of people.")]
Seed = Annotated[int, typer.Option(help="For everything but noise and sampling.")]
Runs = Annotated[Path, typer.Option(help="Where run folders lie (owner's).")]


def seconds_of(text: str) -> float:
    """A time in seconds.

    >>> seconds_of("90s"), seconds_of("10m"), seconds_of("1.5h"), seconds_of("45")
    (90.0, 600.0, 5400.0, 45.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*(s|m|min|h)?", text.strip().lower())
    if found is None or float(found[1]) == 0:
        raise UserError(f"--time takes a time as 90s, 10m or 2h, not {text!r}.")
    return float(found[1]) * {"m": 60, "min": 60, "h": 3600}.get(found[2], 1)


def names(text: str | None) -> tuple[str, ...]:
    """`A,B` as names; one that holds a comma stands in double quotes.

    >>> names('cat, "dog, wet"')
    ('cat', 'dog, wet')
    """
    try:
        (words,) = csv.reader([text or ""], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError) as error:
        raise UserError(
            f"{text!r} is no list of names; separate them by commas, and put one that holds a "
            "comma into double quotes, as in '\"mild, early\",none'."
        ) from error
    return tuple(word.strip() for word in words if word.strip())
