"""`understudy methods`: what there is, and what fits some data."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.cli import completion
from understudy.cli.bars import bars
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson


@guarded
def command(
    name: Annotated[
        str | None,
        typer.Argument(help="Show one method and its settings.", autocompletion=completion.methods),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option(
            "--for", help="Data to choose a method for.", autocompletion=completion.datasets
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="With a NAME: the settings of this preset.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods; with a NAME, its settings; with --for DATA, advice."""
    from understudy.errors import UserError
    from understudy.run.advice import advise, describe_method, list_methods

    if name is not None and for_ is not None:
        raise UserError("give a method's NAME or --for DATA, not both.")
    if preset is not None and name is None:
        raise UserError("--preset goes with a method's NAME; give that too.")
    if name is not None:
        shown = describe_method(name, preset)
    elif for_ is not None:
        shown = advise(for_, progress=bars(as_json))
    else:
        shown = list_methods()
    if as_json:
        print_json(shown.to_json())
    else:
        typer.echo(shown.text())
