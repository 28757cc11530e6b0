"""`understudy bench status`: what is done, by the files of the workspace."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.bench.options import EvidenceFolder, Limit, WorkFolder
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson, Preset

if TYPE_CHECKING:
    from understudy.bench.work.workspace import Standing

_WIDTH = 100


@guarded
def command(
    suite: Annotated[
        str | None,
        typer.Argument(help="A suite by name, or its YAML file.", show_default="all that began"),
    ] = None,
    work: WorkFolder = Path("bench"),
    evidence: EvidenceFolder = None,
    limit: Limit = None,
    preset: Preset = None,
    as_json: AsJson = False,
) -> None:
    """Show how far every run is; starts nothing."""
    from understudy.bench.suite.suite import load_suite
    from understudy.bench.work.workspace import Workspace
    from understudy.errors import UserError

    if suite is None and (limit is not None or preset is not None):
        raise UserError("--limit and --preset change the runs of a suite; name the SUITE too.")
    workspace = Workspace(work, evidence)
    if suite is not None:
        standings = list(workspace.survey(load_suite(suite, limit, preset).cells))
    elif work.is_dir():
        standings = sorted(workspace.known(), key=_order)
    else:
        raise UserError(f"there is no workspace {work}; give its folder with --work.")
    if as_json:
        print_json({"cells": [standing.to_json() for standing in standings]})
        return
    for line in _lines(standings):
        typer.echo(line)


def _order(standing: Standing) -> tuple[str, str, float, int, int, str]:
    """As a suite would be written; the workspace itself is in the order of its keys."""
    cell = standing.cell
    budget = math.inf if cell.epsilon is None else cell.epsilon
    return cell.dataset, cell.method, budget, cell.seed, cell.limit or 0, cell.protocol


def _lines(standings: Sequence[Standing]) -> Iterator[str]:
    """One line for each cell; below that of a failed one its reason, wrapped."""
    from understudy.run.listing import aligned

    rows = [
        (s.cell.title, Path(s.cell.protocol).name, str(s.cell.limit or "-"), str(s.state))
        for s in standings
    ]
    heading, *lines = aligned(("cell", "protocol", "limit", "state"), rows)
    yield heading
    for standing, line in zip(standings, lines, strict=True):
        yield line
        if standing.failure is not None:
            yield textwrap.fill(
                standing.failure.words,
                _WIDTH,
                initial_indent="    ",
                subsequent_indent="    ",
                break_on_hyphens=False,
                break_long_words=False,
            )
