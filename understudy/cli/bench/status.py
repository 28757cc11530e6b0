"""`understudy bench status`: what is done, by the files of the workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.bench.options import EvidenceFolder, Limit, WorkFolder
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson


@guarded
def command(
    suite: Annotated[
        str | None,
        typer.Argument(help="A suite by name, or its YAML file.", show_default="all that began"),
    ] = None,
    work: WorkFolder = Path("bench"),
    evidence: EvidenceFolder = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Show how far every run is; starts nothing."""
    from understudy.bench.suite import load_suite
    from understudy.bench.workspace import Workspace
    from understudy.errors import UserError
    from understudy.run.listing import Listing

    if suite is None and limit is not None:
        raise UserError("--limit changes the runs of a suite; name the SUITE too.")
    workspace = Workspace(work, evidence)
    if suite is not None:
        standings = list(workspace.survey(load_suite(suite, limit).cells))
    elif work.is_dir():
        standings = list(workspace.known())
    else:
        raise UserError(f"there is no workspace {work}; give its folder with --work.")
    if as_json:
        print_json({"cells": [standing.to_json() for standing in standings]})
        return
    rows = tuple(
        (s.cell.title, str(s.state), s.failure.words if s.failure else "") for s in standings
    )
    typer.echo(Listing(("cell", "state", "reason"), rows).text())
