"""`understudy bench sql`: one SELECT over the evidence."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.cli.bench.evidence_options import EVIDENCE, EvidenceFolder, Recompute, TrustedOnly
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson


@guarded
def command(
    query: Annotated[
        str,
        typer.Argument(
            help="Over runs, metrics, phases, settings, measurements and published, e.g. "
            '"SELECT method, metric, avg(value) FROM metrics GROUP BY ALL".'
        ),
    ],
    evidence: EvidenceFolder = EVIDENCE,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    as_json: AsJson = False,
    trusted_only: TrustedOnly = False,
    recompute: Recompute = False,
) -> None:
    """Answer one SELECT over a folder of evidence (needs duckdb, the extra `bench`)."""
    from understudy.bench.evidence.store import read_store
    from understudy.bench.evidence.views import answer_csv, answer_json, answer_text, ask
    from understudy.errors import UserError

    if as_csv and as_json:
        raise UserError("give --csv or --json, not both.")
    store = read_store(evidence, recompute=recompute)
    answer = ask(store, query, trusted_only=trusted_only)
    if as_json:
        print_json(answer_json(answer))
    elif as_csv:
        typer.echo(answer_csv(answer), nl=False)
    else:
        typer.echo(answer_text(answer))
    for line in [] if trusted_only else store.warnings():
        typer.echo(line, err=True)
