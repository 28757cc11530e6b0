"""Attribute inference by attackers of several capacities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluation.attackers.attack_cases import (
    check_leak,
    check_nothing,
    leaking,
    lower_quality,
    sound,
    with_coin,
)
from tests.evaluation.evaluation_cases import make_case
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.evaluation.attackers import attributes
from understudy.evaluation.attackers.attributes import (
    Answers,
    AttributeAccuracy,
    AttributeAdvantage,
    AttributeBalancedAccuracy,
    AttributeInference,
    AttributeLabelRanking,
    AttributeScoreRanking,
    difference,
)
from understudy.evaluation.attackers.guessers import by_logistic_regression, by_neighbour
from understudy.evaluation.attackers.search import CPU
from understudy.evaluation.case import Case
from understudy.evaluation.intervals import Interval, wilson
from understudy.evaluation.protocol import Protocol

FIGURES = (
    AttributeAccuracy,
    AttributeBalancedAccuracy,
    AttributeScoreRanking,
    AttributeLabelRanking,
    AttributeAdvantage,
)
ATTACKERS = ("linear", "mlp", "cnn", "nearest-neighbour")


@pytest.fixture(scope="module")
def cases(digits: Records, quick: Protocol) -> tuple[Case, Case]:
    """Attackers are trained once for all figures: the case keeps their answers."""
    coined, protocol = with_coin(digits), lower_quality(quick)
    return leaking(coined, protocol), sound(coined, protocol)


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("attacker", ATTACKERS)
def test_a_coin_can_be_read_from_copies_and_from_nothing_else(
    cases: tuple[Case, Case], attacker: str, figure: type[AttributeInference]
) -> None:
    leak, clean = (figure(attacker).row(case) for case in cases)
    check_leak(leak)
    check_nothing(clean)
    assert leak.variant == f"{attacker}, coin"


def test_one_instance_for_each_capacity(quick: Protocol) -> None:
    protocol = replace(quick, classifiers=("mlp", "cnn"))
    found = [m.variant for m in AttributeAccuracy.instances(protocol)]
    assert sorted(found) == sorted(ATTACKERS)


def test_knowledge_of_the_population_is_called_so(digits: Records, quick: Protocol) -> None:
    """A digit can be read off any digit; no more of members than of strangers."""
    case = sound(digits, quick)
    row = AttributeAccuracy("nearest-neighbour").row(case)
    assert row.low is not None
    assert row.chance is not None
    assert row.low > row.chance
    assert row.note == attributes._POPULATION
    check_nothing(AttributeAdvantage("nearest-neighbour").row(case))


def test_figures_by_hand() -> None:
    """Three of class 0 (two right), one of class 1 (right)."""
    scores = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
    answers = Answers(scores, np.array([0, 0, 0, 1]))
    assert AttributeAccuracy("").figure(answers).value == 3 / 4
    assert AttributeBalancedAccuracy("").figure(answers).value == pytest.approx((2 / 3 + 1) / 2)
    assert AttributeScoreRanking("").figure(answers).value == 1.0
    assert AttributeLabelRanking("").figure(answers).value == pytest.approx(1 - 1 / 6)
    assert AttributeAccuracy.chance(answers.truth) == 3 / 4
    assert AttributeBalancedAccuracy.chance(answers.truth) == 1 / 2
    assert AttributeScoreRanking.chance(answers.truth) == 1 / 2


def test_balanced_interval_by_hand() -> None:
    answers = Answers(np.eye(2)[[0, 0, 1, 1, 1]], np.array([0, 0, 0, 1, 1]))
    one, other = wilson(2 / 3, 3), wilson(1.0, 2)
    found = AttributeBalancedAccuracy("").figure(answers)
    width = np.hypot(one.value - one.low, other.value - other.low) / 2
    assert found.low == pytest.approx(found.value - width)


def test_newcombes_difference_by_hand() -> None:
    """Newcombe 1998, table II (a): 56/70 against 48/80, limits 0.0524 and 0.3339."""
    found = difference(wilson(56 / 70, 70), wilson(48 / 80, 80))
    assert found == Interval(pytest.approx(0.2), pytest.approx(0.0524, abs=1e-4), found.high)
    assert found.high == pytest.approx(0.3339, abs=1e-4)


def three_classes() -> Records:
    """Points at 0 and 10 of classes 0 and 1; class 2 is declared and absent."""
    schema = Schema((Attribute("kind", ("a", "b", "c")),), label="kind")
    points = np.array([[0.0], [1.0], [10.0], [11.0]], np.float32)
    return Records(points, {"kind": np.array([0, 0, 1, 1])}, schema)


def test_the_neighbour_answers_by_relative_distance() -> None:
    asked = np.array([[0.0], [4.0], [13.0]], np.float32)
    found = by_neighbour(three_classes(), asked, CPU)
    # At distance 0: all weight; 3 and 6 apart: two to one; 12 and 2: six to one.
    assert found == pytest.approx(np.array([[1, 0, 0], [2 / 3, 1 / 3, 0], [1 / 7, 6 / 7, 0]]))


def test_the_linear_attacker_knows_absent_classes() -> None:
    asked = np.array([[0.0], [13.0]], np.float32)
    found = by_logistic_regression(three_classes(), asked)
    assert found.argmax(axis=1).tolist() == [0, 1]
    assert found[:, 2].tolist() == [0, 0]
    only = three_classes().select(np.array([0, 1]))
    assert by_logistic_regression(only, asked)[:, 0].tolist() == [1, 1]


def test_an_attribute_that_the_release_lacks_is_a_row_that_says_so(
    digits: Records, quick: Protocol
) -> None:
    coined = with_coin(digits)
    hidden = coined.with_schema(replace(coined.schema, label="digit"))
    plain = digits.select(np.arange(100))
    row = AttributeAccuracy("linear").row(make_case(plain, hidden, hidden, quick))
    assert row.reason == "the release does not carry the attribute 'coin' to learn from"
