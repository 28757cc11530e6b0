"""`understudy show`: what releases look like, side by side."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.guard import guarded


@guarded
def command(
    releases: Annotated[
        list[Path], typer.Argument(metavar="RELEASE...", help="Releases, or run folders.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="A PNG file to write.", show_default="the terminal"),
    ] = None,
) -> None:
    """Set the first pictures of each class of several releases side by side."""
    from understudy.errors import UserError
    from understudy.run.show import check_picture, show

    if out is not None:
        check_picture(out)
        typer.echo(f"picture   {show(*releases).write(out)}")
        return
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        raise UserError("pictures need a terminal with colours; give -o FILE.png for a file.")
    from understudy.cli.half_blocks import in_blocks

    shown = show(*releases)
    for line in in_blocks(shown.sheets, shutil.get_terminal_size().columns):
        print(line)
