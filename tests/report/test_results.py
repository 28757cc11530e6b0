from __future__ import annotations

import math
from typing import Any

from tests.report.examples import example_metrics
from understudy.report.results import results


def _with_rows(*rows: dict[str, Any]) -> dict[str, Any]:
    return {**example_metrics(), "rows": list(rows)}


def test_numbers_of_a_row_share_the_precision_of_its_interval() -> None:
    row = results(example_metrics()).rows[0]
    assert row.value_words == "0.812"
    assert row.interval_words == "0.784 to 0.839"
    assert row.reference_words == "0.969"
    assert row.chance_words == "0.102"


def test_bounded_metrics_share_an_axis_and_unbounded_ones_do_not() -> None:
    groups = results(example_metrics()).groups
    assert [group.heading for group in groups] == [
        "gen2real accuracy, real2gen accuracy, precision, recall (higher is better)",
        "FD[random-conv] (lower is better)",
        "KD[random-conv] (lower is better)",
    ]


def test_failures_stay_rows_with_their_reason() -> None:
    found = results(example_metrics())
    assert found.failures == 1
    failed = found.rows[2]
    assert failed.failed
    assert failed.reason == "the classifier saw only one class"
    assert failed.value is None


def test_a_row_that_says_ok_without_a_number_is_a_failure() -> None:
    row = {**example_metrics()["rows"][0], "value": math.nan}
    found = results(_with_rows(row)).rows[0]
    assert found.failed
    assert found.reason == "no reason was recorded"


def test_an_extractor_is_named_once() -> None:
    base = example_metrics()["rows"][0]
    named = {**base, "metric": "FD[squeezenet]", "variant": None, "extractor": "squeezenet"}
    apart = {**base, "metric": "precision", "variant": None, "extractor": "squeezenet"}
    assert [row.label for row in results(_with_rows(named, apart)).rows] == [
        "FD[squeezenet]",
        "precision · squeezenet",
    ]


def test_the_interval_s_level_is_named_only_where_all_share_it() -> None:
    metrics = example_metrics()
    assert results(metrics).interval_heading == "95% interval"
    metrics["rows"][0]["confidence"] = 0.9
    assert results(metrics).interval_heading == "interval"


def test_protocol_stamp_and_settings_are_kept_apart() -> None:
    found = results(example_metrics())
    assert found.protocol == "reduced"
    assert "not for comparison" in found.stamp
    assert [name for name, _ in found.protocol_settings] == ["epochs", "selection"]


def test_attacks_stand_beside_held_out_records_and_not_beside_real_data() -> None:
    assert results(example_metrics()).control == "real"
    attacks = {"name": "leakage", "metrics": ["membership-density", "closest-record"]}
    assert results({**example_metrics(), "protocol": attacks}).control == "held-out"
    mixed = {"name": "mine", "metrics": ["membership-density", "gen2real"]}
    assert results({**example_metrics(), "protocol": mixed}).control == "real"


def test_recalls_by_class_are_told_with_those_of_real_data() -> None:
    base = example_metrics()["rows"][0]
    classes = [{"name": "a", "tested": 1200, "recall": 0.0, "reference": 0.914}]
    (row,) = results(_with_rows({**base, "classes": classes})).rows
    (one,) = row.classes
    assert (one.name, one.tested, one.recall, one.reference) == ("a", "1,200", "0.00", "0.91")
    (failed,) = results(_with_rows({**base, "value": None, "classes": classes})).rows
    assert failed.classes == ()
