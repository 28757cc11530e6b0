"""`understudy bench run`: bring every run of a suite to its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.bench.options import EvidenceFolder, Limit, OnlyMethods, SuiteName, WorkFolder
from understudy.cli.colours import BAD, in_colour
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson, Home, Preset

if TYPE_CHECKING:
    from understudy.bench.work.runner import Outcome
    from understudy.bench.work.workspace import Standing


@guarded
def command(
    suite: SuiteName,
    work: WorkFolder = Path("bench"),
    evidence: EvidenceFolder = None,
    limit: Limit = None,
    preset: Preset = None,
    method: OnlyMethods = None,
    jobs: Annotated[
        int | None, typer.Option(help="Workers at once.", show_default="by cores and GPUs")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try again what failed before.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would run, and start nothing.")
    ] = False,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Run what is not done of SUITE; stop it when you like, the next start goes on."""
    from understudy.bench.suite.suite import load_suite
    from understudy.bench.work.executors.local import LocalExecutor
    from understudy.bench.work.live import show_for
    from understudy.bench.work.runner import run_suite, survey_suite
    from understudy.bench.work.workspace import Workspace
    from understudy.errors import UserError

    executor = LocalExecutor(jobs)
    found = load_suite(suite, limit, preset).only(method)
    if dry_run:
        _say_open(survey_suite(found, Workspace(work, evidence), retry_failed), as_json)
        return
    words = _as_written(suite, limit, preset)
    try:
        outcome = run_suite(
            found,
            Workspace(work, evidence),
            executor,
            show_for(as_json),
            home=home,
            retry_failed=retry_failed,
            command=words,
        )
    except KeyboardInterrupt as stop:
        raise UserError("stopped by Ctrl-C; nothing is lost, the same command goes on.") from stop
    _say(outcome, as_json)
    if not outcome.ok:
        raise typer.Exit(1)


def _say_open(standings: Sequence[tuple[Standing, bool]], as_json: bool) -> None:
    if as_json:
        print_json({"cells": [{**one.to_json(), "would_run": runs} for one, runs in standings]})
        return
    for standing, runs in standings:
        typer.echo(f"{'run' if runs else 'leave':<5}  {standing.cell.title}  ({standing.state})")
    count = sum(runs for _, runs in standings)
    typer.echo(f"{count} of {len(standings)} cells would run. Nothing was started.")


def _as_written(suite: str, limit: int | None, preset: str | None) -> str:
    """The command, as evidence holds it."""
    options = {"--limit": limit, "--preset": preset}
    given = [f"{name} {value}" for name, value in options.items() if value is not None]
    return " ".join(["understudy bench run", suite, *given])


def _say(outcome: Outcome, as_json: bool) -> None:
    from understudy.bench.work.workspace import State

    if as_json:
        print_json({"ok": outcome.ok, "cells": [s.to_json() for s in outcome.standings]})
        return
    counts = {str(state): outcome.count(state) for state in State if outcome.count(state)}
    typer.echo(", ".join(f"{count} {state}" for state, count in counts.items()) or "no cells")
    for standing in outcome.standings:
        if standing.failure is not None:
            typer.echo(
                f"{in_colour('failed', BAD)}    {standing.cell.title}: {standing.failure.words}"
            )
    if outcome.count(State.FAILED):
        typer.echo("Failures stay as rows; --retry-failed tries them again.")
    if outcome.count(State.AWAY):
        typer.echo("Cells that are away come back with: understudy bench collect")
