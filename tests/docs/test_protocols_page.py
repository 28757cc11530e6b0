"""The page of protocols is the protocols' data and the measured evidence, and nothing else."""

from __future__ import annotations

import importlib.util
import json
import sys
import xml.etree.ElementTree as ET
from types import ModuleType

import pytest

from tests.docs.pages import REPOSITORY
from tests.docs.protocol_rows import protocol_rows, rule_rows, source_lines, summary_rows

PAGE = (REPOSITORY / "docs" / "protocols.md").read_text(encoding="utf-8").splitlines()
EVIDENCE = REPOSITORY / "benchmarks" / "evidence" / "selection_inflation.json"


@pytest.fixture(scope="module")
def figure() -> ModuleType:
    script = REPOSITORY / "benchmarks" / "inflation_figure.py"
    spec = importlib.util.spec_from_file_location("inflation_figure", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_lists_every_protocol_rule_and_summary() -> None:
    for lines in (protocol_rows(), source_lines(), rule_rows(), summary_rows()):
        start = PAGE.index(lines[0])
        assert PAGE[start : start + len(lines)] == lines


def test_table_and_picture_are_what_was_measured(figure: ModuleType) -> None:
    result = json.loads(EVIDENCE.read_text())["result"]
    again = figure.differences(result["figures"])
    for found, kept in zip(again, result["differences"], strict=True):
        assert found.keys() == kept.keys()
        # Quantiles come from numerical libraries, whose last digits differ.
        assert all(found[k] == pytest.approx(kept[k]) for k in found)
    lines = figure.table(result)
    start = PAGE.index(lines[0])
    assert PAGE[start : start + len(lines)] == lines
    drawn = (REPOSITORY / "docs" / figure.PICTURE).read_text(encoding="utf-8")
    assert drawn == figure.picture(result)
    assert ET.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"


def test_the_evidence_is_of_a_committed_tree_and_of_paired_trainings(figure: ModuleType) -> None:
    evidence = json.loads(EVIDENCE.read_text())
    assert evidence["dirty"] is False
    for row in evidence["result"]["differences"]:
        if row["kind"] == "epoch on test":
            assert min(row["releases"]) >= 0, "the test set's own choice cannot lose to another"
    assert {row["kind"] for row in evidence["result"]["differences"]} == set(figure.KINDS)


def test_what_the_page_says_in_words_is_what_was_measured() -> None:
    """On mnist knowledge, on digits luck; a new measurement that differs needs new words."""
    result = json.loads(EVIDENCE.read_text())["result"]
    points = {(d["dataset"], d["epsilon"], d["kind"]): d["points"] for d in result["differences"]}
    for epsilon in (1.0, 10.0):
        on_test, honest = (
            {data: points[data, epsilon, kind] for data in ("mnist", "digits")}
            for kind in ("epoch on test", "epoch on validation")
        )
        assert honest["mnist"] > 0.8 * on_test["mnist"] > 0.8
        assert honest["digits"] < 0.5 * on_test["digits"]


def made_up(seed: int, better: float) -> list[dict[str, object]]:
    """Two classifiers: held-out records prefer `a`, the test set prefers `b`."""
    accuracy = {
        ("a", "held-out"): (0.9, 0.70),
        ("b", "held-out"): (0.8, 0.72),
        ("a", "private-validation"): (0.7, 0.71),
        ("b", "private-validation"): (0.8, 0.74),
        ("a", "test"): (0.75, 0.75),
        ("b", "test"): (0.76 + better, 0.76 + better),
    }
    return [
        {
            **{"dataset": "d", "epsilon": 1.0, "seed": seed, "classifier": classifier},
            **{"selection": rule, "epoch": 1, "score": score, "accuracy": value},
        }
        for (classifier, rule), (score, value) in accuracy.items()
    ]


def test_differences_match_a_case_by_hand(figure: ModuleType) -> None:
    found = {d["kind"]: d for d in figure.differences([*made_up(0, 0.0), *made_up(1, 0.02)])}
    assert found["epoch on test"]["releases"] == pytest.approx([4.5, 5.5])
    assert found["epoch on validation"]["releases"] == pytest.approx([1.5, 1.5])
    assert found["epoch and classifier on test"]["releases"] == pytest.approx([6.0, 8.0])
    assert found["epoch and classifier on validation"]["releases"] == pytest.approx([4.0, 4.0])
    assert found["best on test against mean"]["releases"] == pytest.approx([5.0, 7.0])
    row = found["epoch and classifier on test"]
    assert row["points"] == pytest.approx(7.0)
    assert row["high"] - row["points"] == pytest.approx(12.706 * 2**0.5 / 2**0.5, rel=1e-3)
