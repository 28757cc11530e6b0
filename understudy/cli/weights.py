"""`understudy weights`: the catalog of public weights."""

from __future__ import annotations

import typer

from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson


@guarded
def command(as_json: AsJson = False) -> None:
    """List the public weights that can be named, and whether they are on this machine."""
    from understudy.run.weights_shelf import look_at_shelf

    shelf = look_at_shelf()
    if as_json:
        print_json(shelf.to_json())
    else:
        typer.echo(shelf.text())
