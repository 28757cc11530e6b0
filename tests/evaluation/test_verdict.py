"""The verdict in words, on figures made up for each situation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from understudy.evaluation.metric import ClassRecall, Row
from understudy.evaluation.verdict import BALANCED, VerdictFacts, judged, verdict

FACTS = VerdictFacts("runs/a", "scans", 10.0, 1e-5, 40_000, None, now=9.99, after=14.531)


def row(value: float | None, reference: float | None, chance: float = 0.25, **changes: Any) -> Row:
    names, spread = "abcd", changes.pop("spread", 0.03)
    recalls = changes.pop("recalls", [value or 0.0] * 4)
    classes = tuple(
        ClassRecall(name, 50, recall, reference)
        for name, recall in zip(names, recalls, strict=True)
    )
    plain = Row(
        metric=BALANCED,
        variant="cnn",
        value=value,
        low=None if value is None else value - spread,
        high=None if value is None else value + spread,
        confidence=0.95,
        direction="higher",
        unit="fraction",
        bounds=(0.0, 1.0),
        seeds=(0,),
        reference=reference,
        chance=chance,
        extractor=None,
        status="ok" if value is not None else "failed",
        reason=None if value is not None else "it diverged",
        classes=classes,
    )
    return replace(plain, **changes)


def said(*rows: Row, facts: VerdictFacts | None = FACTS, held_out: bool = False) -> str:
    return " ".join(verdict(rows, "elsewhere", facts, held_out=held_out))


def test_the_share_of_the_gain_over_chance_is_told() -> None:
    words = said(row(0.55, 0.75))
    assert "balanced accuracy 0.55 on elsewhere" in words
    assert "real training records reach 0.75 and guessing gives 0.25" in words
    assert "is fair: it keeps 60% of the gain" in words
    assert "is poor: it keeps 20%" in said(row(0.35, 0.75))
    assert "is good: it keeps 90%" in said(row(0.7, 0.75))


def test_figures_that_look_fine_and_are_those_of_guessing() -> None:
    """On faces .70 looked good, where guessing gives .68: balanced it is .52 against .5."""
    words = said(row(0.52, 0.85, chance=0.5))
    assert "no better than guessing" in words
    assert "too small" not in words
    assert "too small to say more" in said(row(0.45, 0.5, spread=0.3))


def test_it_is_never_called_good_where_guessing_lies_in_the_interval() -> None:
    for value in (0.2, 0.25, 0.5, 0.74):
        words = said(row(value, 0.75, spread=0.5))
        assert "no better than guessing" in words
        assert "is good" not in words
        assert "hand on the release" not in words


def test_a_collapse_names_the_classes() -> None:
    one = said(row(0.7, 0.75, recalls=[0.9, 0.0, 0.9, 1.0]))
    assert "Collapse: the class 'b' is never recognised" in one
    assert "merge or drop the classes" in one
    assert "hand on the release" not in one, "a good mean hides no collapse"
    two = said(row(0.5, 0.75, recalls=[1.0, 0.0, 0.0, 1.0]))
    assert "the classes 'b', 'c' are never recognised" in two
    assert "Collapse" not in said(row(0.5, 0.0, recalls=[0.0] * 4))


def test_the_classifier_is_chosen_by_real_records_alone() -> None:
    better = row(0.74, 0.7, variant="mlp")
    assert judged([better, row(0.3, 0.75)]).row.variant == "cnn"  # type: ignore[union-attr]
    assert "Judged by the cnn" in said(better, row(0.3, 0.75))


@pytest.mark.parametrize(
    ("rows", "facts", "limit", "advice"),
    [
        (row(0.28, 0.3), {}, "real records themselves teach", "no run is worth its budget"),
        (row(0.35, 0.75), {"count": 2439}, "about 609 for each class", "smaller images"),
        (row(0.35, 0.75), {"epsilon": 1.0}, "Epsilon 1 is small", "public images"),
        (row(0.35, 0.75), {}, "neither records nor budget are small", "methods --for DATA"),
        (row(0.35, 0.75), {"epsilon": None}, "no budget", "another method"),
    ],
)
def test_what_limits_it_and_what_to_try(
    rows: Row, facts: dict[str, Any], limit: str, advice: str
) -> None:
    words = said(rows, facts=replace(FACTS, **facts))
    assert limit in words
    assert advice in words
    assert words.count("What to try next") == 1


def test_few_records_and_a_small_budget_are_both_told() -> None:
    words = said(row(0.35, 0.75), facts=replace(FACTS, count=800, epsilon=0.5, unit="patient"))
    assert "few units (each one patient)" in words
    assert "Epsilon 0.5 is small" in words


def test_the_cost_of_another_run_and_that_choosing_is_not_covered() -> None:
    words = said(row(0.35, 0.75))
    assert "all runs on scans together stand at epsilon 9.99 (delta 1e-05)" in words
    assert "with this run's budget makes it 14.54" in words, "a cost is never rounded down"
    assert "private evaluation selected it and tuning is not covered" in words
    assert "infinite" in said(row(0.35, 0.75), facts=replace(FACTS, after=math.inf))
    assert "tuning is not covered" in said(row(0.74, 0.75)), "also of a choice to stop"


def test_a_per_image_hold_out_flatters() -> None:
    assert "Caution" in said(row(0.5, 0.75), held_out=True)
    assert "Caution" not in said(row(0.5, 0.75))
    assert "Caution" not in said(row(0.5, 0.75), facts=replace(FACTS, unit="id"), held_out=True)


def test_without_real_training_records_no_share_is_claimed() -> None:
    words = said(row(0.5, None), facts=None)
    assert "With --run" in words
    assert "keeps" not in words
    assert "no better than guessing" in said(row(0.26, None), facts=None)


def test_what_cannot_be_judged_says_why() -> None:
    assert said(row(None, None)) == "No verdict: it diverged."
    assert said() == (
        "No verdict: this protocol trains no classifier on the stand-in (the standard one does)."
    )
