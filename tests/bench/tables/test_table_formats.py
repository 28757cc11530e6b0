"""CSV, Markdown and LaTeX: complete, and safe whatever names hold."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from tests.bench.samples import failed_run, metric_row, run_evidence
from understudy.bench.evidence.evidence import write_all_evidence
from understudy.bench.evidence.store import read_store
from understudy.bench.tables.benchmark_table import BenchmarkTable, build_table
from understudy.bench.tables.table_formats import (
    WRITERS,
    csv_table,
    latex,
    latex_table,
    markdown_table,
)

NASTY = r"=cmd|'/x'!A_1 {50%} \end & #$~^<b>*`"


@pytest.fixture
def table(tmp_path: Path) -> BenchmarkTable:
    rows = [metric_row("gen2real accuracy", 0.8, "cnn"), metric_row("KD[random-conv]", -0.5)]
    runs = [run_evidence(method, rows=rows) for method in (NASTY, "dp-gan")]
    write_all_evidence(tmp_path, [*runs, failed_run("-1 of @2", method="dpdm")])
    return build_table(read_store(tmp_path), published=False)


def test_csv_holds_every_figure_and_no_formula(table: BenchmarkTable) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_table(table))))
    for row in rows:
        for name, value in row.items():
            if name not in ("value", "low", "high"):
                assert not value.startswith(("=", "+", "-", "@")), (name, value)
    figures = {(r["metric"], r["method"]): r for r in rows}
    assert figures["KD[random-conv]", "dp-gan"]["value"] == "-0.5"
    assert figures["gen2real accuracy", f"'{NASTY}"]["seeds"] == "1"
    assert figures["gen2real accuracy", "real data"]["value"] == "0.97"
    assert figures["", "dpdm"]["failures"] == "seed 0: -1 of @2"


def test_markdown_tables_keep_their_columns(table: BenchmarkTable) -> None:
    text = markdown_table(table)
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert counts == {3}
    assert r"\<b\>" in text
    assert "- failed: dpdm on mnist" in text


def test_latex_balances_and_escapes(table: BenchmarkTable) -> None:
    text = latex_table(table)
    plain = re.sub(r"\\[\\&%$#_{}]", "", text)
    assert plain.count("{") == plain.count("}")
    assert re.findall(r"\\begin\{(\w+)\}", text) != []
    assert re.findall(r"\\begin\{(\w+)\}", plain) == [
        "table", "tabular", "table", "tabular", "itemize",
    ]  # fmt: skip
    assert plain.count(r"\begin{") == plain.count(r"\end{")
    bodies = re.findall(r"\\begin\{tabular\}\{l(r+)\}(.*?)\\end\{tabular\}", text, re.DOTALL)
    for columns, body in bodies:
        for line in body.splitlines():
            if line.endswith(r"\\"):
                assert len(re.findall(r"(?<!\\)&", line)) == len(columns)
    assert not re.search(r"[^\x00-\x7f]", text)


def test_latex_of_every_special_character() -> None:
    assert latex("a_b%\\") == r"a\_b\%\textbackslash{}"
    assert latex("±†") == r"$\pm$$^\dagger$"


def test_the_best_is_bold(tmp_path: Path) -> None:
    runs = [
        run_evidence(m, rows=[metric_row("gen2real accuracy", v, "cnn")])
        for m, v in (("dp-merf", 0.8), ("dp-gan", 0.7))
    ]
    write_all_evidence(tmp_path, runs)
    table = build_table(read_store(tmp_path), published=False)
    assert "**80.0 ±1.0 (1)**" in markdown_table(table)
    assert r"\textbf{80.0 $\pm$1.0 (1)}" in latex_table(table)


def test_published_figures_export_too(tmp_path: Path) -> None:
    row = metric_row("gen2real accuracy", 0.8, "cnn")
    write_all_evidence(tmp_path, [run_evidence(epsilon=10.0, rows=[row])])
    table = build_table(read_store(tmp_path))
    rows = list(csv.DictReader(io.StringIO(csv_table(table))))
    assert {"no", "yes"} <= {row["sound"] for row in rows}
    assert all(row["reason"] for row in rows if row["sound"] == "no")
    for write in WRITERS.values():
        assert "dpimagebench" in write(table)
