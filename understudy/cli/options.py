"""Options that several commands share."""

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
