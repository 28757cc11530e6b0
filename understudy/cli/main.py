"""The `understudy` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from understudy.cli import (
    check_method,
    datasets,
    demo,
    evaluate,
    keygen,
    methods,
    spent,
    synthesize,
    verify,
)

app = typer.Typer(
    name="understudy",
    help="Synthetic stand-ins for sensitive image datasets, with privacy claims that are true.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.command)
app.command("synthesize")(synthesize.command)
app.command("evaluate")(evaluate.command)
app.command("verify")(verify.command)
app.command("spent")(spent.command)
app.command("methods")(methods.command)
app.command("datasets")(datasets.command)
app.command("check-method")(check_method.command)
app.command("keygen")(keygen.command)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        from understudy import __version__

        typer.echo(f"understudy {__version__}")
        raise typer.Exit


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line in this process and give its exit code."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="understudy")
    except SystemExit as finished:
        return finished.code if isinstance(finished.code, int) else int(bool(finished.code))
    return 0


def main() -> None:
    sys.exit(run())
