"""`understudy bench new-method`: a working method in one file, to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.guard import guarded


@guarded
def command(
    name: Annotated[str, typer.Argument(help="The method's name, like my-method.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="The file to write.", show_default="NAME.py, with _"),
    ] = None,
) -> None:
    """Write one file that holds a complete, sound method; change it into yours."""
    from understudy.bench.new_method import new_method

    address = new_method(name, out)
    typer.echo(f"wrote     {address.rpartition(':')[0]}")
    typer.echo(f"check it  understudy check-method {address}")
    typer.echo(f"in a suite, beside this file:  method: {address.rpartition('/')[2]}")
