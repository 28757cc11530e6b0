"""Options that the verbs of `understudy bench` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SuiteName = Annotated[str, typer.Argument(help="A suite by name, or its YAML file.")]
WorkFolder = Annotated[Path, typer.Option(help="Where runs are kept (owner's).")]
EvidenceFolder = Annotated[
    Path | None, typer.Option(help="Where results go.", show_default="WORK/evidence")
]
Limit = Annotated[
    int | None, typer.Option(help="A smoke run on about so many records; stamped as one.")
]
OnlyMethods = Annotated[
    list[str] | None, typer.Option("--method", help="Only runs of this method; repeatable.")
]
