"""The results page is what the evidence gives, word for word."""

from __future__ import annotations

from pathlib import Path

from tests.bench.samples import run_evidence
from understudy.bench.evidence.evidence import write_all_evidence
from understudy.bench.evidence.store import read_store
from understudy.bench.tables.results_page import DATASETS, results_page

ROOT = Path(__file__).parents[2]


def test_the_page_is_made_from_the_evidence() -> None:
    store = read_store(ROOT / "benchmarks" / "evidence")
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == results_page(store)


def test_another_figure_makes_another_page(tmp_path: Path) -> None:
    both = [run_evidence(dataset=name) for name in DATASETS]
    write_all_evidence(tmp_path, both)
    one = results_page(read_store(tmp_path))
    assert "dp-merf" in one
    assert "80.0" in one
    write_all_evidence(tmp_path, [run_evidence(epsilon=10.0)])
    assert results_page(read_store(tmp_path)) != one
