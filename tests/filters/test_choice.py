"""What a user may choose, and what no filter can do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.filters.latent_cases import mixture
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.filters.choice import Choice, best_achievable, conflicts, refuse_impossible


def labelled(**columns: list[int]) -> Records:
    count = len(next(iter(columns.values())))
    schema = Schema(
        tuple(Attribute(n, tuple("abcdefghij"[: max(c) + 1])) for n, c in columns.items())
    )
    codes = {name: np.asarray(column) for name, column in columns.items()}
    return Records(np.zeros((count, 2), np.float32), codes, schema)


def test_labels_that_determine_each_other_are_refused_with_the_figures() -> None:
    records = labelled(hide=[0, 1, 0, 1] * 50, keep=[1, 0, 1, 0] * 50)
    with pytest.raises(UserError, match=r"no filter can hide 'hide'.*100%.*accuracy 1.000"):
        refuse_impossible(records, Choice(("hide",), ("keep",)))


def test_several_kept_labels_can_determine_together() -> None:
    first, second = [0, 0, 1, 1] * 50, [0, 1, 0, 1] * 50
    both = [a ^ b for a, b in zip(first, second, strict=True)]
    records = labelled(hide=both, one=first, two=second)
    refuse_impossible(records, Choice(("hide",), ("one",)))
    with pytest.raises(UserError, match="one, two"):
        refuse_impossible(records, Choice(("hide",), ("one", "two")))


def test_independent_labels_pass_and_say_how_little_they_share() -> None:
    (conflict,) = conflicts(mixture(20_000), Choice(("hide",), ("keep",)))
    assert conflict.information < 1e-3
    assert conflict.entropy == pytest.approx(math.log(2), abs=1e-3)
    assert conflict.best_accuracy == pytest.approx(0.5, abs=0.02)
    assert not conflict.determined


def test_nothing_kept_is_no_conflict() -> None:
    (conflict,) = conflicts(mixture(500), Choice(("hide",)))
    assert conflict.information == pytest.approx(0.0, abs=1e-12)
    assert conflict.best_accuracy == conflict.chance


def test_the_best_that_any_filter_can_do() -> None:
    """Digits: keeping parity and circles perfectly gives 0.7 of `at least 5` away."""
    digits = list(range(10)) * 20
    records = labelled(
        hide=[int(d >= 5) for d in digits],
        odd=[d % 2 for d in digits],
        circle=[int(d in (0, 6, 8, 9)) for d in digits],
    )
    choice = Choice(("hide",), ("odd", "circle"))
    assert best_achievable(records, choice, 1.0)["hide"] == pytest.approx(0.7)
    assert best_achievable(records, choice, 0.9)["hide"] == pytest.approx(0.6)
    assert best_achievable(records, choice, 0.5)["hide"] == pytest.approx(0.5)


def test_the_best_is_never_below_chance_nor_above_what_the_kept_tell() -> None:
    records = labelled(hide=[0, 0, 0, 1] * 25, keep=[0, 0, 1, 1] * 25)
    choice = Choice(("hide",), ("keep",))
    found = [best_achievable(records, choice, share)["hide"] for share in (0.5, 0.8, 1.0)]
    assert found == sorted(found)
    assert found[0] == pytest.approx(0.75)
    assert found[-1] == pytest.approx(conflicts(records, choice)[0].best_accuracy)


def test_choices_that_make_no_sense() -> None:
    with pytest.raises(UserError, match="at least one"):
        Choice(())
    with pytest.raises(UserError, match="twice"):
        Choice(("a",), ("a",))
    with pytest.raises(UserError, match="did you mean keep"):
        conflicts(mixture(10), Choice(("hide",), ("kept",)))
    with pytest.raises(UserError, match="between 0 and 1"):
        best_achievable(mixture(10), Choice(("hide",), ("keep",)), 1.5)
