"""`understudy filter`: each user chooses what to hide; one public encoder serves them all."""

from __future__ import annotations

import typer

from understudy.cli.filter import apply, collect, export, init, train

app = typer.Typer(help="Hide chosen attributes on the user's own device, with one encoder for all.")
app.command("init")(init.command)
app.command("train")(train.command)
app.command("apply")(apply.command)
app.command("collect")(collect.command)
app.command("export")(export.command)


@app.callback(invoke_without_command=True)
def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)
