"""Intervals against textbook values, and their coverage in repeated experiments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from understudy.evaluation.intervals import (
    Interval,
    clopper_pearson,
    mean_accuracy,
    normal,
    student_half_width,
    wilson,
)


@pytest.mark.parametrize(("hits", "count"), [(0, 20), (7, 20), (50, 100), (999, 1000), (3, 3)])
def test_wilson_agrees_with_scipy(hits: int, count: int) -> None:
    theirs = stats.binomtest(hits, count).proportion_ci(method="wilson")
    ours = wilson(hits / count, count)
    assert ours.low == pytest.approx(theirs.low, abs=1e-12)
    assert ours.high == pytest.approx(theirs.high, abs=1e-12)


@pytest.mark.parametrize(("hits", "count"), [(0, 10), (3, 10), (10, 10), (1, 60_000)])
def test_clopper_pearson_agrees_with_scipy(hits: int, count: int) -> None:
    expected = stats.binomtest(hits, count).proportion_ci(0.95, method="exact")
    found = clopper_pearson(hits, count)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_student_half_width_agrees_with_scipy() -> None:
    values = [0.91, 0.93, 0.90, 0.95]
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert student_half_width(values) == pytest.approx((high - low) / 2, rel=1e-10)


def test_one_seed_leaves_only_the_test_records() -> None:
    assert mean_accuracy([0.9], 100) == wilson(0.9, 100)


def test_agreeing_seeds_add_nothing_and_disagreeing_seeds_widen() -> None:
    alike = mean_accuracy([0.9, 0.9, 0.9], 100)
    assert (alike.low, alike.high) == pytest.approx((wilson(0.9, 100).low, wilson(0.9, 100).high))
    apart = mean_accuracy([0.85, 0.9, 0.95], 100)
    assert apart.low < alike.low
    assert apart.high > alike.high


def test_limits_stay_inside_the_bounds_and_around_the_value() -> None:
    wide = mean_accuracy([0.2, 1.0], 10)
    assert 0.0 <= wide.low <= wide.value <= wide.high <= 1.0
    assert normal(0.1, 1.0).within(0.0).low == 0.0
    assert Interval(0.5, 0.4, 0.6).within(0.0, 1.0) == Interval(0.5, 0.4, 0.6)


def test_mean_accuracy_covers_the_true_mean() -> None:
    """400 experiments with three seeds, a seed spread of 0.03 and 500 test records.

    The combined interval covers at least 95% up to chance (400 trials: 0.93 leaves a false
    alarm rate below 4%).
    """
    source = np.random.default_rng(3)
    true, inside = 0.8, 0
    for _ in range(400):
        rates = true + source.normal(0, 0.03, 3)
        difficulty = source.random(500)
        accuracies = [float((difficulty < rate).mean()) for rate in rates]
        interval = mean_accuracy(accuracies, 500)
        inside += interval.low <= true <= interval.high
    assert inside / 400 >= 0.93


def test_ignoring_the_seeds_would_cover_too_little() -> None:
    """The planted fault of the test above: with a seed spread of 0.03 Wilson alone fails."""
    source = np.random.default_rng(3)
    true, inside = 0.8, 0
    for _ in range(400):
        rate = true + source.normal(0, 0.03)
        interval = wilson(float((source.random(500) < rate).mean()), 500)
        inside += interval.low <= true <= interval.high
    assert inside / 400 < 0.93
