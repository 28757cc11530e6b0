"""The f-DP bound: the least mass that is forced, exact, and never above the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

from understudy.audit import f_dp, one_run
from understudy.audit.canaries import extremes
from understudy.audit.trade_off import ApproximateCurves, GaussianCurves, gaussian_mu


def by_linear_programme(
    epsilon: float, delta: float, m: int, r: int, correct: int, tail: float
) -> float:
    """The least total probability over counts 0..r that the theorem leaves possible."""
    counts = np.arange(r + 1)
    rows, limits = [], []
    for i in range(r):
        right = np.where(counts > i, counts, 0) / m
        wrong = np.where(counts >= i, r - counts, 0) / m
        rows.append(right - math.exp(epsilon) * wrong)
        limits.append(delta)
        rows.append(right - math.exp(-epsilon) * wrong)
        limits.append(1 - math.exp(-epsilon) * (1 - delta))
    rows.append(np.where(counts >= correct, -1.0, 0.0))
    limits.append(-tail)
    found = linprog(np.ones(r + 1), A_ub=np.array(rows), b_ub=limits, bounds=(0, None))
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("delta", [0.0, 1e-2])
@pytest.mark.parametrize(("m", "r"), [(14, 14), (30, 10)])
def test_the_greedy_sum_is_the_least(epsilon: float, delta: float, m: int, r: int) -> None:
    inverse = ApproximateCurves(epsilon, delta).inverse(np.array([epsilon]))
    for correct in range(1, r + 1):
        wanted = by_linear_programme(epsilon, delta, m, r, correct, 0.05)
        found = f_dp.mass_forced(inverse, canaries=m, guesses=r, correct=correct, tail=0.05)[0]
        if wanted > 1:
            assert found > 1
        else:
            assert found == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("mu", [0.3, 1.0, 1.8])
def test_what_a_gaussian_does_often_is_never_contradicted(mu: float) -> None:
    """Guessing every coin of a Gaussian release is right with probability Phi(mu / 2)."""
    m, family = 200, GaussianCurves(mu)
    rejected = []
    for correct in range(m + 1):
        settings = {"canaries": m, "guesses": m, "correct": correct, "confidence": 0.95}
        if f_dp.contradicts(family, np.array([mu]), **settings)[0]:  # type: ignore[arg-type]
            rejected.append(correct)
            assert binom.sf(correct - 1, m, norm.cdf(mu / 2)) <= 0.05
    assert rejected
    assert rejected == list(range(rejected[0], m + 1))


def bound(correct: int, guesses: int = 300, confidence: float = 0.95) -> float:
    return f_dp.lower_bound(
        GaussianCurves(0.0),
        canaries=3000,
        guesses=guesses,
        correct=correct,
        delta=1e-5,
        confidence=confidence,
    )


def test_more_right_guesses_show_more() -> None:
    bounds = [bound(correct) for correct in range(150, 301, 15)]
    assert bounds == sorted(bounds)
    assert bounds[0] == 0
    assert bounds[-1] > bounds[-2] > 3


def test_confidence_costs_power() -> None:
    assert bound(280, confidence=0.99) < bound(280)


def test_it_shows_more_than_one_pair_of_epsilon_and_delta() -> None:
    settings = {"canaries": 3000, "guesses": 300, "delta": 1e-5, "confidence": 0.95}
    plain = one_run.lower_bound(correct=270, **settings)  # type: ignore[arg-type]
    same = f_dp.lower_bound(ApproximateCurves(0.0, 1e-5), correct=270, **settings)  # type: ignore[arg-type]
    assert same == pytest.approx(plain, rel=0.1)
    assert bound(270) > 1.2 * plain


@pytest.mark.parametrize("epsilon", [2.0, 6.0])
def test_calibrated_on_a_gaussian_and_a_broken_twin_is_seen(epsilon: float) -> None:
    """Below the truth, and not far; with half the noise, above what is then claimed."""
    rng = np.random.default_rng(5)
    m, guesses, mu = 20_000, 1000, gaussian_mu(epsilon, 1e-5)
    family = GaussianCurves(mu)

    def audited(signal: float) -> float:
        coins = rng.random(m) < 0.5
        right = extremes(coins * signal + rng.standard_normal(m), guesses).correct(coins)
        return f_dp.lower_bound(
            family, canaries=m, guesses=guesses, correct=right, delta=1e-5, confidence=0.95
        )

    bounds = [audited(mu) for _ in range(8)]
    assert max(bounds) <= epsilon
    assert np.mean(bounds) >= 0.5 * epsilon
    assert min(audited(2 * mu) for _ in range(4)) > epsilon
