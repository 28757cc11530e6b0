"""`understudy datasets`: the catalog."""

from __future__ import annotations

import typer

from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson


@guarded
def command(as_json: AsJson = False) -> None:
    """List the datasets that can be named, and where their files are looked for."""
    from understudy.run.advice import list_datasets

    shown = list_datasets()
    if as_json:
        print_json(shown.to_json())
    else:
        typer.echo(shown.text())
