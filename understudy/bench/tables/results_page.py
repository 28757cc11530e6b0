"""The page of results: made from evidence and published figures, and never typed."""

from __future__ import annotations

from importlib.resources import files

from understudy.bench.evidence.store import Store
from understudy.bench.tables.benchmark_table import build_table
from understudy.bench.tables.columns import Wanted
from understudy.bench.tables.table_text import text_table

DATASETS = ("mnist", "fashion-mnist")
METRIC = "gen2real accuracy"


def results_page(store: Store) -> str:
    """The whole page: words, then what `understudy bench table` prints of this folder."""
    words = files("understudy.bench").joinpath("templates/results.md").read_text(encoding="utf-8")
    table = build_table(store, Wanted(DATASETS, (METRIC,)), trusted_only=True)
    mark = "<!-- not run: benchmarks/results_page.py writes it -->"
    return f"{words}\n{mark}\n```text\n{text_table(table).strip()}\n```\n"
