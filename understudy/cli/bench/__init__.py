"""`understudy bench`: suites of runs, their evidence, and tables of it."""

from __future__ import annotations

import typer

from understudy.cli.bench import collect, compare, new_method, pack, run, sql, status, table

app = typer.Typer(help="Run suites of methods and datasets, and compare what came out.")
app.command("run")(run.command)
app.command("status")(status.command)
app.command("table")(table.command)
app.command("compare")(compare.command)
app.command("sql")(sql.command)
app.command("new-method")(new_method.command)
app.command("pack")(pack.command)
app.command("collect")(collect.command)


@app.callback(invoke_without_command=True)
def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)
