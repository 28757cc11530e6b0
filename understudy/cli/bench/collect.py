"""`understudy bench collect`: bring home what another machine fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.bench.options import WorkFolder
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson, Home


@guarded
def command(
    result: Annotated[Path, typer.Argument(help="What --result wrote there, or the job folder.")],
    work: WorkFolder = Path("bench"),
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Check and install fits that were packed here; `bench run` then goes on with them."""
    from dataclasses import asdict

    from understudy.bench.away.collect import collect
    from understudy.bench.work.workspace import Workspace

    moved = collect(result, Workspace(work), home)
    if as_json:
        print_json({"cells": [asdict(one) for one in moved]})
        return
    for one in moved:
        typer.echo(f"{'taken' if one.done else 'left':<8} {one.title}: {one.words}")
    if not moved:
        typer.echo("nothing is fitted there yet: nothing was taken.")
