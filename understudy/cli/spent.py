"""`understudy spent`: what has been spent on a dataset."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson, Home


@guarded
def command(
    data: Annotated[str, typer.Argument(help="The data as it was given, or your name for it.")],
    delta: Annotated[float, typer.Option(help="One delta for the totals.")] = 1e-5,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Print two totals for DATA: of its releases, and of all runs."""
    from understudy.privacy.plan.plan import json_number
    from understudy.run.spent import spent, torn_books, totals_in_words

    totals = spent(data, delta=delta, home=home)
    for warning in torn_books(data, home):
        typer.echo(warning, err=True)
    if as_json:
        print_json(
            {
                "delta": delta,
                "released": json_number(totals.released.epsilon),
                "all_runs": json_number(totals.all_runs.epsilon),
                "local": {
                    "released": json_number(totals.local_released.epsilon),
                    "all_runs": json_number(totals.local_all_runs.epsilon),
                    "runs": len(totals.local),
                },
                "runs": len(totals.runs),
            }
        )
        return
    for sentence in totals_in_words(totals):
        typer.echo(sentence)
    if not totals.runs:
        typer.echo(f"No run on {data!r} is in the book; give the name that its runs were given.")
