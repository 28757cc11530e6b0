"""`understudy demo`: the main job on built-in data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.bars import bars
from understudy.cli.guard import guarded


@guarded
def command(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to make.")] = Path("demo"),
) -> None:
    """Two methods on the built-in digits at epsilon 10: release, verify, evaluate, report."""
    from understudy.run.advice import demo_table
    from understudy.run.demo import demo
    from understudy.run.spent import totals_in_words

    found = demo(out, progress=bars())
    typer.echo(demo_table(found))
    for run in found.runs:
        typer.echo(f"{run.result.claim.method.name}: {run.verification.verdict}")
    for sentence in totals_in_words(found.totals):
        typer.echo(sentence)
    for run in found.runs:
        typer.echo(f"report    {run.result.report}")
    if not all(run.verification.ok for run in found.runs):
        raise typer.Exit(1)
