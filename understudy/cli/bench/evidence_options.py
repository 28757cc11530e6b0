"""Options of the verbs that read evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EVIDENCE = Path("bench/evidence")
EvidenceFolder = Annotated[Path, typer.Option("--evidence", help="The folder of evidence.")]
Datasets = Annotated[
    list[str] | None, typer.Option("--dataset", help="Only this dataset; repeatable.")
]
Metrics = Annotated[
    list[str] | None, typer.Option("--metric", help="Only this metric; repeatable.")
]
Protocols = Annotated[
    list[str] | None, typer.Option("--protocol", help="Only this protocol; repeatable.")
]
TrustedOnly = Annotated[
    bool, typer.Option("--trusted-only", help="Leave out files that were edited or are unlisted.")
]
Recompute = Annotated[
    bool,
    typer.Option(
        "--recompute",
        help="Recompute every run's epsilon from its file's mechanisms; one that differs is "
        "untrusted. Takes up to a second a plan.",
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Write to this file; it must not exist.")
]
