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


def test_the_page_shows_every_audit_that_was_measured_and_no_other() -> None:
    section = PAGE.partition("## What the audits show")[2]
    on_page = [line for line in section.splitlines() if line.startswith(("| dp", "| pdp"))]
    assert sorted(on_page) == sorted(row for path in AUDITS for row in rows_of(path))
    missing = central_methods() - {
        path.stem.removeprefix("audit-").removesuffix("-gpu") for path in AUDITS
    }
    for method in missing:
        assert f"`{method}` is still to be measured" in section


def rows_of(path: Path) -> list[str]:
    return [
        shown(
            found["method"],
            name.partition(",")[0],
            *(found[field] for field in ("claim", "lower_bound", "ceiling")),
            f"{found['correct']:,} of {found['guesses']:,}",
        )
        for name, found in result_of(path).items()
    ]


def central_methods() -> set[str]:
    from understudy.methods.registry import get_method, method_names

    return {name for name in method_names() if get_method(name).info.claim == "central"}


def test_audits_show_what_is_promised() -> None:
    for path in AUDITS:
        for name, found in result_of(path).items():
            check_promise(name.partition(",")[0], found)


def check_promise(kind: str, found: dict[str, Any]) -> None:
    assert found["contradicted"] is (kind == "twin")
    assert (found["lower_bound"] > found["claim"]) is (kind == "twin")
    if kind == "white-box" and found["claim"] <= 1:
        assert found["lower_bound"] >= 0.2 * found["claim"]
    if not found["has_power"]:
        assert kind == "black-box"
        assert "No power" in found["verdict"]


def test_a_broken_promise_is_noticed() -> None:
    held = {"claim": 0.99, "lower_bound": 0.5, "contradicted": False, "has_power": True}
    check_promise("white-box", held)
    for change in ({"lower_bound": 1.2}, {"lower_bound": 0.1}, {"has_power": False}):
        with pytest.raises(AssertionError):
            check_promise("white-box", held | change)
    with pytest.raises(AssertionError):
        check_promise("twin", held)
