"""Information: a bound that never exceeds the truth by more than chance, and an estimate."""

from __future__ import annotations

import math

import numpy as np
import pytest

from understudy.errors import UserError
from understudy.evaluation.attackers.attributes import Answers
from understudy.evaluation.information import entropy, information_bound, information_estimate

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 2, 2000)


def test_the_entropy_of_a_fair_label() -> None:
    assert entropy(np.array([0, 1] * 50)) == pytest.approx(math.log(2))
    assert entropy(np.zeros(10, np.int64)) == 0.0


def test_a_perfect_reader_shows_the_whole_entropy_and_a_blind_one_nothing() -> None:
    perfect = information_bound(Answers(np.eye(2)[CODES], CODES))
    assert perfect.value == pytest.approx(math.log(2), abs=1e-3)
    blind = information_bound(Answers(np.full((2000, 2), 0.5), CODES))
    assert blind.value == pytest.approx(0.0, abs=1e-3)
    wrong = information_bound(Answers(np.eye(2)[1 - CODES], CODES))
    assert wrong.value < -5, "confident mistakes are no information"


def test_the_bound_is_below_the_truth_of_a_known_channel() -> None:
    """A symmetric channel with 10% errors: information log 2 - H(0.1), found by its own reader."""
    lies = np.arange(2000) % 10 == 0
    said = np.where(np.random.default_rng(1).permutation(lies), 1 - CODES, CODES)
    scores = np.where(np.eye(2)[said] == 1, 0.9, 0.1)
    truth = math.log(2) + 0.9 * math.log(0.9) + 0.1 * math.log(0.1)
    found = information_bound(Answers(scores, CODES))
    assert found.low < truth < found.high
    assert information_bound(Answers(np.full((2000, 2), 0.5), CODES)).high < truth


def told_by_two_gaussians(distance: float) -> float:
    """By quadrature: the information of a fair label in a unit Gaussian that it moves."""
    x = np.linspace(-12, 12 + distance, 200_001)
    p, q = (np.exp(-((x - m) ** 2) / 2) / math.sqrt(2 * math.pi) for m in (0.0, distance))
    mean = (p + q) / 2
    logs = [f * np.log(np.maximum(f, 1e-300) / np.maximum(mean, 1e-300)) for f in (p, q)]
    return float((logs[0] + logs[1]).sum() / 2 * (x[1] - x[0]))


@pytest.mark.parametrize("distance", [0.0, 1.0, 8.0])
def test_the_estimate_finds_what_two_gaussians_tell(distance: float) -> None:
    truth = told_by_two_gaussians(distance)
    points = np.random.default_rng(2).normal(size=(2000, 2))
    points[:, 0] += distance * CODES
    found = information_estimate(points, CODES)
    assert found.value == pytest.approx(truth, abs=0.05)
    assert found.low <= found.value <= found.high


def test_too_few_records() -> None:
    with pytest.raises(UserError, match="more than 3 records"):
        information_estimate(np.zeros((2, 2)), np.array([0, 1]))
