"""`understudy check-method`: the contract tests, for anybody's method."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import completion
from understudy.cli.bars import bars
from understudy.cli.colours import BAD, GOOD, in_colour
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson, Settings, Weights


@guarded
def command(
    target: Annotated[
        str,
        typer.Argument(
            help="A method's name, pkg.module:Class or file.py:Class.",
            autocompletion=completion.methods,
        ),
    ],
    set_: Settings = None,
    weights: Weights = None,
    as_json: AsJson = False,
) -> None:
    """Run the public contract tests on a method; exit code 1 if one fails."""
    from understudy.audit.check_method import check_method
    from understudy.data.weights import given_weights
    from understudy.methods.registry import get_method
    from understudy.run.public_options import weights_sources

    sys.path.append(str(Path.cwd()))  # a method is often checked where it is being written
    method = get_method(target)
    sources = weights_sources(tuple(weights or ()), method.info)
    files = {name: given_weights(source) for name, source in sources.items()}
    results = check_method(method, tuple(set_ or ()), bars(as_json), files)
    if as_json:
        rows = [{"check": r.name, "passed": r.passed, "problem": r.problem} for r in results]
        print_json({"method": target, "checks": rows})
    else:
        for result in results:
            mark = in_colour("pass", GOOD) if result.passed else in_colour("FAIL", BAD)
            typer.echo(f"{mark}  {result.name}" + (f": {result.problem}" if result.problem else ""))
    if not all(r.passed for r in results):
        raise typer.Exit(1)
