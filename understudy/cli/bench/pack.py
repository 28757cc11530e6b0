"""`understudy bench pack`: fits for a machine that has only torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.bars import bars
from understudy.cli.bench.options import EvidenceFolder, Limit, OnlyMethods, SuiteName, WorkFolder
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson, Home, Preset


@guarded
def command(
    suite: SuiteName,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="The job folder to write.", show_default="WORK/away/NAME"),
    ] = None,
    work: WorkFolder = Path("bench"),
    evidence: EvidenceFolder = None,
    limit: Limit = None,
    preset: Preset = None,
    method: OnlyMethods = None,
    classify: Annotated[
        bool,
        typer.Option(
            "--classify",
            help="Take the test records along: classifiers of evaluations are trained there too.",
        ),
    ] = False,
    piece_size: Annotated[
        int,
        typer.Option(
            "--piece-size",
            min=1,
            help="Records and weights travel in files of at most so many MiB.",
        ),
    ] = 40,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Write a job for every run of SUITE that has not begun; it is then away from here."""
    from dataclasses import asdict

    from understudy.bench.away.classify_packing import pack_evaluations
    from understudy.bench.away.pack import pack
    from understudy.bench.away.pieces import MEBIBYTE
    from understudy.bench.suite.suite import load_suite
    from understudy.bench.work.workspace import Workspace

    found, workspace = load_suite(suite, limit, preset).only(method), Workspace(work, evidence)
    target = out or workspace.away / found.name
    size = piece_size * MEBIBYTE
    moved = pack(found.cells, workspace, target, home, bars(as_json), size)
    if classify:
        moved += pack_evaluations(found.cells, workspace, target, home, bars(as_json), size)
    if as_json:
        print_json({"job": str(target), "cells": [asdict(one) for one in moved]})
        return
    for one in moved:
        typer.echo(f"{'packed' if one.done else 'left':<8} {one.title}: {one.words}")
    if any(one.done for one in moved):
        typer.echo(f"job      {target}  (holds private records: for machines that you trust)")
        typer.echo(
            f"pieces   {target / 'pieces'}  (may travel apart; JOB --check says what is there)"
        )
        phases = " --phases fit,sample,classify" if classify else ""
        typer.echo(f"there    python -m understudy.bench.away JOB{phases} --result RESULT")
        typer.echo("then     understudy bench collect RESULT")
