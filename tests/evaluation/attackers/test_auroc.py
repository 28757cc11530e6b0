"""Areas by hand, DeLong's error by its formula and by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.errors import UserError
from understudy.evaluation.attackers.auroc import auroc, macro_auroc


@pytest.mark.parametrize(
    ("positive", "negative", "area"),
    [
        ([3, 4], [1, 2], 1.0),
        ([1, 2], [3, 4], 0.0),
        ([1, 3], [2, 0], 0.75),
        ([1, 1], [1, 1], 0.5),
        ([2, 1], [1], 0.75),
        ([0.8, 0.6, 0.4], [0.7, 0.5, 0.3, 0.1], 9 / 12),
    ],
)
def test_area_by_hand(positive: list[float], negative: list[float], area: float) -> None:
    assert auroc(positive, negative).value == pytest.approx(area)


def test_delongs_error_by_hand() -> None:
    """Placements 1, 3/4, 1/2 above and 1/3, 2/3, 1, 1 below: variances 1/16 and 11/108."""
    found = auroc([0.8, 0.6, 0.4], [0.7, 0.5, 0.3, 0.1])
    above, below = np.array([1, 3 / 4, 1 / 2]), np.array([1 / 3, 2 / 3, 1, 1])
    expected = above.var(ddof=1) / 3 + below.var(ddof=1) / 4
    assert expected == pytest.approx(1 / 48 + 11 / 432)
    assert found.standard_error**2 == pytest.approx(expected)


def test_interval_covers_as_often_as_it_says() -> None:
    """1,000 draws of two normal laws whose true area is 0.7602; at least 93% and at most 97%."""
    random, truth, hits = np.random.default_rng(0), 0.76024994, 0
    for _ in range(1000):
        found = auroc(random.normal(1, 1, 80), random.normal(0, 1, 120)).interval
        hits += found.low <= truth <= found.high
    assert 930 <= hits <= 970


def test_a_perfect_ranking_is_not_certain() -> None:
    found = auroc([3, 4, 5], [0, 1, 2]).interval
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(3 / (3 + 1.959964**2), rel=1e-5)
    many = auroc(np.arange(2000.0) + 5000, np.arange(2000.0)).interval
    assert many.low > 0.998


def test_two_classes_are_one_ranking() -> None:
    random = np.random.default_rng(1)
    right = random.random(60)
    codes = (random.random(60) < right).astype(np.int64)
    both = macro_auroc(np.stack([1 - right, right], axis=1), codes)
    one = auroc(right[codes == 1], right[codes == 0])
    assert both.value == pytest.approx(one.value)
    assert both.standard_error == pytest.approx(one.standard_error)


def test_three_classes_are_the_mean_of_each_against_the_rest() -> None:
    scores = np.random.default_rng(2).random((90, 4))
    codes = np.arange(90) % 3
    expected = [auroc(scores[codes == c, c], scores[codes != c, c]).value for c in range(3)]
    assert macro_auroc(scores, codes).value == pytest.approx(np.mean(expected))


def test_what_cannot_be_ranked_is_refused() -> None:
    with pytest.raises(UserError, match="both sides"):
        auroc([], [1.0])
    with pytest.raises(UserError, match="not finite"):
        auroc([np.nan], [1.0])
    with pytest.raises(UserError, match="two classes"):
        macro_auroc(np.ones((3, 2)), np.zeros(3, np.int64))
