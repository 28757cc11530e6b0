"""The `understudy` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from understudy.cli import (
    audit,
    bench,
    check_method,
    datasets,
    demo,
    evaluate,
    keygen,
    methods,
    show,
    spent,
    synthesize,
    verify,
    weights,
)
from understudy.cli import filter as filters
from understudy.cli.colours import marked

app = typer.Typer(
    name="understudy",
    help="Synthetic stand-ins for sensitive image datasets, with privacy claims that are true.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.command)
app.command("synthesize")(synthesize.command)
app.command("evaluate")(evaluate.command)
app.command("show")(show.command)
app.command("verify")(verify.command)
app.command("audit")(audit.command)
app.command("spent")(spent.command)
app.command("methods")(methods.command)
app.command("datasets")(datasets.command)
app.command("weights")(weights.command)
app.command("check-method")(check_method.command)
app.command("keygen")(keygen.command)
app.add_typer(bench.app, name="bench")
app.add_typer(filters.app, name="filter")


_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""What the option parser raises; typer exports the class only through its children."""


@app.callback(invoke_without_command=True)
def _version(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        from understudy import __version__

        typer.echo(f"understudy {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line in this process and give its exit code."""
    words = None if arguments is None else list(arguments)
    try:
        code = app(args=words, prog_name="understudy", standalone_mode=False)
    except _UsageError as error:
        print(marked(f"error: {_usage(error)}", sys.stderr), file=sys.stderr)
        return 2
    except typer.Abort:
        return 2
    except SystemExit as finished:
        return finished.code if isinstance(finished.code, int) else int(bool(finished.code))
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> str:
    """The parser's complaint as one sentence that says where the right words are."""
    problem = str(error.format_message()).rstrip(".")
    command = error.ctx.command_path if error.ctx is not None else "understudy"
    return f"{problem[:1].lower()}{problem[1:]}; see {command} --help."


def main() -> None:
    # Threads that spin while they wait make two busy programs many times slower than one.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    sys.exit(run())
