"""`understudy evaluate`: how good is it, on the owner's side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.bars import bars
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson, Device, Home


@guarded
def command(
    release: Annotated[Path | None, typer.Argument(help="A release folder.")] = None,
    run: Annotated[Path | None, typer.Option(help="A run folder, instead of a release.")] = None,
    real: Annotated[str | None, typer.Option(help="Catalog name of the real data.")] = None,
    test: Annotated[str | None, typer.Option(help="Real data from elsewhere to test on.")] = None,
    protocol: Annotated[
        str | None,
        typer.Option(help="Name of a protocol, or a file.", show_default="standard"),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="As --protocol full.")] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for metrics.json.")
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Measure a release or a run against real records; the figures are the owner's."""
    from understudy.errors import UserError
    from understudy.evaluation.metric_table import render_table
    from understudy.evaluation.protocol import load_protocol
    from understudy.run.evaluate import evaluate_release, evaluate_run

    if full and protocol is not None and protocol != "full":
        raise UserError(f"--full and --protocol {protocol} contradict each other; give one.")
    chosen = load_protocol("full" if full else protocol or "standard")
    progress = bars(as_json)
    where = None if device == "auto" else device
    if run is not None and (release or real or out):
        raise UserError("--run knows its data and its folder; leave RELEASE, --real and -o out.")
    if run is not None:
        result = evaluate_run(run, chosen, test=test, device=where, home=home, progress=progress)
    elif release is None:
        raise UserError("say what to evaluate: a RELEASE folder, or --run with a run folder.")
    else:
        result = evaluate_release(
            release,
            chosen,
            real=real,
            test=test,
            out=out,
            device=where,
            home=home,
            progress=progress,
        )
    if as_json:
        print_json(result.to_json())
    else:
        typer.echo(render_table(result))
