"""Docs quote only evidence: the table of figures is the one that the evidence files give.

`python benchmarks/methods_page.py` prints it.
"""

from __future__ import annotations

from pathlib import Path

from tests.bench.samples import metric_row, run_evidence
from understudy.bench.evidence.evidence import write_all_evidence
from understudy.bench.evidence.store import read_store
from understudy.bench.tables.methods_page import methods_page_rows, methods_page_table

ROOT = Path(__file__).parents[2]


def figures_in(page: str) -> list[str]:
    """The body of the table under `## Figures`."""
    section = page.partition("\n## Figures\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


def test_the_methods_page_shows_what_was_measured_and_nothing_else() -> None:
    store = read_store(ROOT / "benchmarks" / "evidence")
    shown = figures_in((ROOT / "docs" / "methods.md").read_text())
    expected = methods_page_rows(store)
    assert expected
    assert shown == expected, methods_page_table(store)
    assert store.warnings() == []


def test_a_row_is_made_from_trusted_unstamped_runs(tmp_path: Path) -> None:
    runs = [
        run_evidence(
            seed=seed,
            rows=[metric_row("gen2real accuracy", value, v) for v in ("mlp", "cnn")],
        )
        for seed, value in enumerate((0.80, 0.82))
    ]
    stamped = run_evidence("dp-gan", protocol="reduced", stamp="reduced")
    edited, *_ = write_all_evidence(tmp_path, [run_evidence("pe"), stamped, *runs])
    edited.write_text(edited.read_text().replace('"value": 0.8', '"value": 0.9'))
    interval = "81.0% (68.3 to 93.7)"
    assert methods_page_rows(read_store(tmp_path)) == [
        f"| mnist | `dp-merf` | 1.000 | 2 | {interval} | {interval} | 97.0% | 4 s | 0.5 GB |"
    ]


def test_the_table_of_a_page_is_found() -> None:
    page = "# M\n\n## Figures\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n## More\n\n| 3 | 4 |\n"
    assert figures_in(page) == ["| 1 | 2 |"]
