"""The one-run bound: exact against a slow re-implementation, and never above the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from understudy.audit import one_run


def slow_p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The theorem as it is written down, in exact sums."""
    q = 1 / (1 + math.exp(-epsilon))
    chance = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    beta = math.fsum(chance[v:])
    alpha = max((math.fsum(chance[max(0, v - i) : v]) / i for i in range(1, m + 1)), default=0.0)
    return min(1.0, beta + 2 * m * delta * alpha)


@pytest.mark.parametrize("canaries", [10, 60])
@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-2])
def test_it_is_the_theorem(canaries: int, share: float, epsilon: float, delta: float) -> None:
    guesses = int(canaries * share)
    for correct in range(guesses + 1):
        slow = slow_p_value(canaries, guesses, correct, epsilon, delta)
        fast = one_run.p_value(
            [epsilon], canaries=canaries, guesses=guesses, correct=correct, delta=delta
        )
        assert fast[0] == pytest.approx(slow, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_private_mechanisms_stay_below_it(epsilon: float, delta: float) -> None:
    """Randomised response that leaks each coin, or all at once, with probability delta."""
    m = 40
    q = 1 / (1 + math.exp(-epsilon))
    for correct in range(m + 1):
        most = one_run.p_value([epsilon], canaries=m, guesses=m, correct=correct, delta=delta)[0]
        each = binom.sf(correct - 1, m, delta + (1 - delta) * q)
        at_once = delta + (1 - delta) * binom.sf(correct - 1, m, q)
        assert max(each, at_once) <= most + 1e-12


def test_it_is_tight_for_randomised_response() -> None:
    q = 1 / (1 + math.exp(-1.0))
    most = one_run.p_value([1.0], canaries=40, guesses=40, correct=33, delta=0.0)[0]
    assert most == pytest.approx(binom.sf(32, 40, q), rel=1e-12)


def bound(correct: int, delta: float = 1e-5, confidence: float = 0.95) -> float:
    return one_run.lower_bound(
        canaries=1000, guesses=200, correct=correct, delta=delta, confidence=confidence
    )


def test_more_right_guesses_show_more() -> None:
    bounds = [bound(correct) for correct in range(100, 201, 10)]
    assert bounds == sorted(bounds)
    assert bounds[0] == 0
    assert bounds[-1] > 3


def test_the_bound_is_where_the_p_value_crosses() -> None:
    found = bound(160)
    for epsilon, rejected in ((found - 1e-3, True), (found + 1e-3, False)):
        p = one_run.p_value([epsilon], canaries=1000, guesses=200, correct=160, delta=1e-5)[0]
        assert bool(p <= 0.05) is rejected


def test_delta_and_confidence_cost_power() -> None:
    assert bound(180, delta=1e-3) < bound(180, delta=0.0)
    assert bound(180, confidence=0.99) < bound(180)


def test_fewer_than_half_right_show_nothing() -> None:
    assert bound(90) == 0
    assert bound(0) == 0


def test_calibrated_on_randomised_response() -> None:
    """Above the truth in about 5% of audits, where the bound is tight: not more, not never."""
    rng = np.random.default_rng(3)
    right = rng.binomial(500, 1 / (1 + math.exp(-1.0)), 200)
    bounds = {
        int(v): one_run.lower_bound(
            canaries=500, guesses=500, correct=int(v), delta=0.0, confidence=0.95
        )
        for v in np.unique(right)
    }
    above = sum(bounds[int(v)] > 1.0 for v in right)
    assert 1 <= above <= 27
