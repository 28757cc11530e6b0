"""The figures on the page of audits are those of the evidence files, and hold what is promised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "benchmarks" / "evidence"
PAGE = (ROOT / "docs" / "audits.md").read_text(encoding="utf-8")
AUDITS = sorted(EVIDENCE.glob("audit-*.json"))


def result_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["result"]
    return found


def shown(*cells: object) -> str:
    """A row of a table as the page has it."""
    return f"| {' | '.join(f'{c:.2f}' if isinstance(c, float) else str(c) for c in cells)} |"


@pytest.mark.parametrize("row", result_of(EVIDENCE / "auditor.json")["gaussian"])
def test_the_auditor_is_calibrated(row: dict[str, Any]) -> None:
    for estimator, least in (("f-dp", 0.65), ("one-run", 0.40)):
        found = row[estimator]
        assert found["above the truth"] <= 27
        share = found["mean share of the truth"]
        if row["canaries"] == 100_000:
            assert share >= least
        cells = (f"{row['epsilon']:g}", f"{row['canaries']:,}", f"{row['guesses']:,}", estimator)
        assert shown(*cells, share, found["above the truth"]) in PAGE


def test_half_the_noise_is_found_out() -> None:
    for row in result_of(EVIDENCE / "auditor.json")["half the noise"]:
        assert row["found out"] == row["repeats"]


def test_every_central_method_has_been_audited() -> None:
    from understudy.methods.registry import get_method, method_names

    central = {f"audit-{m}" for m in method_names() if get_method(m).info.claim == "central"}
    assert {path.stem for path in AUDITS} == central


@pytest.mark.parametrize("path", AUDITS, ids=lambda p: p.stem)
def test_audits_show_what_is_promised(path: Path) -> None:
    for name, found in result_of(path).items():
        kind = name.partition(",")[0]
        cells = (found["method"], kind, found["claim"], found["lower_bound"], found["ceiling"])
        assert shown(*cells, f"{found['correct']:,} of {found['guesses']:,}") in PAGE
        assert found["contradicted"] is (kind == "twin")
        assert (found["lower_bound"] > found["claim"]) is (kind == "twin")
        if kind == "white-box" and found["claim"] <= 1:
            assert found["lower_bound"] >= 0.2 * found["claim"]
        if not found["has_power"]:
            assert kind == "black-box"
            assert "No power" in found["verdict"]
