"""`understudy bench table`: our methods and the published ones, beside each other."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.cli.bench.evidence_options import (
    EVIDENCE,
    Datasets,
    EvidenceFolder,
    Metrics,
    Out,
    Protocols,
    Recompute,
    TrustedOnly,
)
from understudy.cli.guard import guarded


@guarded
def command(
    evidence: EvidenceFolder = EVIDENCE,
    dataset: Datasets = None,
    metric: Metrics = None,
    protocol: Protocols = None,
    published: Annotated[
        bool | None,
        typer.Option(
            "--published/--no-published",
            help="All published figures, or none; else those beside ours.",
            show_default="beside ours",
        ),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help="text, markdown, csv or latex.")
    ] = "text",
    out: Out = None,
    trusted_only: TrustedOnly = False,
    recompute: Recompute = False,
) -> None:
    """Print the figures of a folder of evidence, published ones beside ours."""
    from understudy.bench.evidence.store import read_store
    from understudy.bench.tables.benchmark_table import build_table
    from understudy.bench.tables.columns import Wanted
    from understudy.bench.tables.table_formats import WRITERS
    from understudy.bench.tables.text_file import show_or_write
    from understudy.errors import UserError, did_you_mean

    if format_ not in WRITERS:
        raise UserError(f"--format {format_!r} is not known; {did_you_mean(format_, WRITERS)}")
    wanted = Wanted.by_options(dataset, metric, protocol)
    found = build_table(
        read_store(evidence, recompute=recompute),
        wanted,
        published=published,
        trusted_only=trusted_only,
    )
    show_or_write(WRITERS[format_](found), out, typer.echo)
