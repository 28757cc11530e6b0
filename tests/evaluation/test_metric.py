"""Rows and evaluations: failures, round trips, atomic writing."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.evaluation.evaluation_cases import make_case
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.evaluation.case import Case
from understudy.evaluation.metric import ClassRecall, Evaluation, Measurement, Metric, Need, Row
from understudy.evaluation.metric_table import render_table
from understudy.evaluation.protocol import Protocol


class Constant(Metric):
    """A metric that gives what it is told to give."""

    name = "constant"
    direction = "lower"
    bounds = (0.0, None)
    unit = "points"
    needs = frozenset()
    outcome: float | Exception = 2.0

    def measure(self, case: Case) -> Measurement:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return Measurement(self.outcome, 1.0, 3.0, seeds=(case.seed,), reference=0.5)


@pytest.fixture
def case(test_part: Records, quick: Protocol) -> Case:
    return make_case(test_part, None, test_part, quick, seed=4)


def test_a_row_carries_the_attributes_of_its_class(case: Case) -> None:
    row = Constant().row(case)
    assert row.to_json() == {
        "metric": "constant",
        "variant": "",
        "value": 2.0,
        "low": 1.0,
        "high": 3.0,
        "confidence": 0.95,
        "direction": "lower",
        "unit": "points",
        "bounds": [0.0, None],
        "seeds": [4],
        "reference": 0.5,
        "chance": None,
        "extractor": None,
        "status": "ok",
        "reason": None,
        "selection": None,
        "note": None,
    }
    assert Row.from_json(json.loads(json.dumps(row.to_json()))) == row


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (UserError("weights were not found."), "weights were not found."),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
    ],
)
def test_a_failure_is_a_row_with_its_reason(
    case: Case, outcome: float | Exception, reason: str
) -> None:
    metric = Constant()
    metric.outcome = outcome
    row = metric.row(case)
    assert (row.status, row.reason, row.value, row.low) == ("failed", reason, None, None)
    assert (row.metric, row.direction, row.bounds) == ("constant", "lower", (0.0, None))


@pytest.mark.parametrize("field", ["value", "low", "high", "reference", "chance"])
def test_a_number_that_is_not_finite_is_a_failure(case: Case, field: str) -> None:
    class Odd(Constant):
        def measure(self, case: Case) -> Measurement:
            return replace(super().measure(case), **{field: float("nan")})

    row = Odd().row(case)
    assert row.status == "failed"
    assert row.reason is not None
    assert row.reason.startswith("not every number is finite")


def test_an_interruption_is_not_a_row(case: Case) -> None:
    metric = Constant()
    metric.measure = lambda _: (_ for _ in ()).throw(KeyboardInterrupt())  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        metric.row(case)


def test_needs_that_are_not_met_are_said_without_measuring(case: Case) -> None:
    class Needy(Constant):
        needs = frozenset({Need.TRAIN})
        outcome = AssertionError("measured in spite of an unmet need")

    row = Needy().row(case)
    assert row.reason == "needs the real training records, which were not given"


def test_a_metric_is_made_once_for_each_tool(quick: Protocol) -> None:
    class WithClassifier(Constant):
        needs = frozenset({Need.CLASSIFIER})

    class WithExtractor(Constant):
        needs = frozenset({Need.EXTRACTOR})

    protocol = replace(quick, classifiers=("mlp", "cnn"), extractors=("random-conv",))
    assert [m.variant for m in WithClassifier.instances(protocol)] == ["mlp", "cnn"]
    assert [m.extractor for m in WithExtractor.instances(protocol)] == ["random-conv"]
    assert len(Constant.instances(protocol)) == 1


def test_metrics_json_is_written_whole_and_read_back(
    case: Case, quick: Protocol, tmp_path: Path
) -> None:
    broken = Constant()
    broken.outcome = ValueError("no")
    evaluation = Evaluation((Constant().row(case), broken.row(case)), quick, "digits", 360)
    path = evaluation.write(tmp_path / "run")
    data = json.loads(path.read_text())
    assert path.name == "metrics.json"
    assert data["format"] == "understudy-metrics/1"
    assert data["protocol"]["stamp"] == quick.stamp
    assert (data["dataset"], data["synthetic_count"], len(data["rows"])) == ("digits", 360, 2)
    assert Evaluation.read(path) == evaluation
    assert [p.name for p in path.parent.iterdir()] == ["metrics.json"]


def test_a_failed_write_leaves_the_old_file(
    case: Case, quick: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = Evaluation((Constant().row(case),), quick, "digits", 360)
    before = evaluation.write(tmp_path).read_text()

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(UserError, match=r"metrics.json could not be written: No space left"):
        replace(evaluation, dataset="other").write(tmp_path)
    assert (tmp_path / "metrics.json").read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.json"]


def test_a_folder_that_cannot_be_made_is_named(case: Case, quick: Protocol, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    evaluation = Evaluation((Constant().row(case),), quick, "digits", 360)
    with pytest.raises(UserError, match=r"metrics.json could not be written"):
        evaluation.write(tmp_path / "taken" / "run")


@pytest.mark.parametrize("field", ["selection", "note"])
def test_rows_written_before_a_field_was_added_are_read(case: Case, field: str) -> None:
    data = Constant().row(case).to_json()
    del data[field]
    assert Row.from_json(data) == Constant().row(case)


def test_a_note_goes_from_the_measurement_to_the_row_and_the_table(
    case: Case, quick: Protocol
) -> None:
    class Noted(Constant):
        def measure(self, case: Case) -> Measurement:
            return replace(super().measure(case), note="mind the gap.")

    row = Noted().row(case)
    assert row.note == "mind the gap."
    assert Row.from_json(json.loads(json.dumps(row.to_json()))) == row
    table = render_table(Evaluation((row, Constant().row(case)), quick, "digits", 360))
    assert "note on constant: mind the gap." in table
    assert render_table(Evaluation((Constant().row(case),), quick, "d", 1)).count("note on") == 0


@pytest.mark.parametrize("inside", [".", "figures"])
def test_nothing_is_written_into_a_release(
    case: Case, quick: Protocol, tmp_path: Path, inside: str
) -> None:
    (tmp_path / "manifest.sha256").write_text("")
    evaluation = Evaluation((Constant().row(case),), quick, "digits", 360)
    with pytest.raises(UserError, match="lies in a release"):
        evaluation.write(tmp_path / inside)
    assert [p.name for p in tmp_path.iterdir()] == ["manifest.sha256"]


def test_reading_rows_and_protocols_needs_no_torch() -> None:
    names = ["metric", "protocol", "metric_registry", "selection", "metric_table"]
    imports = "; ".join(f"import understudy.evaluation.{name}" for name in names)
    check = f"{imports}; import sys; sys.exit(any(m in sys.modules for m in ('torch', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other/1"}', '{"format": 1'])
def test_a_file_that_is_not_metrics_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(text)
    with pytest.raises(UserError, match="metrics"):
        Evaluation.read(path)


def test_a_wide_table_names_each_metric_once_and_fits_a_terminal(
    case: Case, quick: Protocol
) -> None:
    note = "this attack shows nothing: it does not beat guessing (0.5)."
    base = replace(Constant().row(case), metric="membership " + "x" * 50, note=note)
    variants = ("pixels, of sixty thousand", "random-conv", "linear")
    rows = (*(replace(base, variant=variant) for variant in variants), Constant().row(case))
    attacks = replace(quick, name="leakage", metrics=("membership-density",), stamp=None)
    lines = render_table(Evaluation(rows, attacks, "digits", 360)).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines.count(base.metric) == 1
    assert any(line.startswith("  random-conv  ") and "1 to 3" in line for line in lines)
    assert "  held-out  " in lines[1]
    assert "held-out: the same figure for real records that the method never saw" in lines
    assert "pixels" not in " ".join(lines).partition("note on")[2], "all variants: named by metric"


def test_a_note_on_some_variants_names_them(case: Case, quick: Protocol) -> None:
    row = replace(Constant().row(case), variant="mlp")
    rows = (replace(row, note="mind the gap."), replace(row, variant="cnn"))
    table = render_table(Evaluation(rows, quick, "digits", 360))
    assert "note on constant (mlp): mind the gap." in table
    assert "held-out" not in table


def test_recalls_by_class_stand_below_the_table(case: Case, quick: Protocol) -> None:
    classes = tuple(ClassRecall(f"c{i}", 9, i / 20, 0.9) for i in range(20))
    for shown, expected in (
        (classes[:2], "c0: 0.00 (0.90); c1: 0.05 (0.90)"),
        (classes, "c11: 0.55"),
    ):
        row = replace(Constant().row(case), variant="cnn", classes=shown)
        table = render_table(Evaluation((row,), quick, "any", 1))
        assert expected in " ".join(table.split())
        assert ("12 lowest of 20 classes" in " ".join(table.split())) == (len(shown) == 20)
        assert "c12:" not in table
