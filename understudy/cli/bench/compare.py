"""`understudy bench compare`: two methods, suites, commits or evidence files."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.cli.bench.evidence_options import (
    EVIDENCE,
    Datasets,
    EvidenceFolder,
    Metrics,
    Protocols,
)
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson

_HELP = "A method, suite, commit, evidence file or folder."


@guarded
def command(
    a: Annotated[str, typer.Argument(help=_HELP)],
    b: Annotated[str, typer.Argument(help="The other side, of the same kind.")],
    evidence: EvidenceFolder = EVIDENCE,
    dataset: Datasets = None,
    metric: Metrics = None,
    protocol: Protocols = None,
    as_json: AsJson = False,
) -> None:
    """Print B less A, column by column, with intervals over paired seeds."""
    from understudy.bench.tables.columns import Wanted
    from understudy.bench.tables.compare import compare
    from understudy.bench.tables.compare_text import comparison_json, comparison_text

    wanted = Wanted.by_options(dataset, metric, protocol)
    found = compare(evidence, a, b, wanted)
    if as_json:
        print_json(comparison_json(found))
    else:
        typer.echo(comparison_text(found))
