"""Whether units join steps as Poisson sampling says: each by itself, at the stated rate.

The price of DP-SGD rests on it. Batches of fixed size fail by the variance of the size;
units that come in pairs by their correlation; shuffled epochs by the correlation between
steps.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from scipy import stats

from understudy.audit.noise_tests import ALPHA

Joined = npt.NDArray[np.bool_]
"""[steps, units]: who joined which step."""

Sizes = npt.NDArray[np.int64]
"""[steps]: how many joined which step."""


class BernoulliSource(Protocol):
    """What draws independent booleans."""

    def bernoulli(self, count: int, rate: float) -> torch.Tensor: ...


def samples_by_poisson(source: BernoulliSource, rate: float) -> bool:
    """Whether 5000 rounds of 40 units from a source look like Poisson sampling."""
    rounds = [source.bernoulli(40, rate) for _ in range(5000)]
    return joined_by_poisson(torch.stack(rounds).numpy(), rate)


def joined_by_poisson(joined: Joined, rate: float) -> bool:
    """Whether each unit joined each step independently with probability `rate`.

    Looks at how many joined in all, at the distribution of the size of a step, at every
    pair of units, and at every unit in steps that follow one another.
    """
    told = joined.astype(np.float64)
    steps, units = told.shape
    between_units = np.atleast_2d(np.corrcoef(told.T))[np.triu_indices(units, k=1)]
    between_steps = [
        np.atleast_2d(np.corrcoef(told[:-1, i], told[1:, i]))[0, 1] for i in range(units)
    ]
    p_values = [
        float(stats.binomtest(int(told.sum()), steps * units, rate).pvalue),
        _size_spread_p_value(told.sum(axis=1), units, rate),
        _size_shape_p_value(told.sum(axis=1), units, rate),
        _largest_p_value(between_units, steps),
        _largest_p_value(np.asarray(between_steps), steps),
        _mean_p_value(np.asarray(between_steps), steps),
    ]
    return bool(min(p_values) > ALPHA / len(p_values))


def sizes_by_poisson(sizes: Sizes, units: int, rate: float) -> bool:
    """Whether steps over thousands of units have the sizes that Poisson sampling gives them.

    For real sizes, where pairs of units are too many to look at. Two-sided for how many joined
    in all: 600 steps of 2,048 expected of 60,000 show a rate that is off by 1% with near
    certainty. Two-sided for how far sizes lie from their mean, taken as normal: batches of a fixed
    size lie at it.
    """
    expected, variance = units * rate, units * rate * (1 - rate)
    squares = float(np.sum((sizes - expected) ** 2) / variance)
    in_all = float(stats.binomtest(int(sizes.sum()), len(sizes) * units, rate).pvalue)
    law = stats.chi2(len(sizes))
    spread = float(2 * min(law.cdf(squares), law.sf(squares)))
    return min(in_all, spread) > ALPHA / 2


def _size_spread_p_value(sizes: npt.NDArray[np.float64], units: int, rate: float) -> float:
    """Two-sided, for the variance of binomial sizes."""
    expected = units * rate * (1 - rate)
    fourth = expected * (1 + 3 * expected * (1 - 2 / units))
    deviation = np.sqrt((fourth - expected**2) / len(sizes))
    return float(2 * stats.norm.sf(abs(np.var(sizes) - expected) / deviation))


def _size_shape_p_value(sizes: npt.NDArray[np.float64], units: int, rate: float) -> float:
    """Chi-square of the sizes against the binomial, tails merged until 5 are expected."""
    law = stats.binom(units, rate)
    least = 5 / len(sizes)
    low = next(k for k in range(units + 1) if law.cdf(k) >= least)
    high = next(k for k in range(units, -1, -1) if law.sf(k - 1) >= least)
    inner = np.arange(low, high + 1)
    expected = law.pmf(inner)
    expected[0], expected[-1] = law.cdf(low), law.sf(high - 1)
    kept = np.clip(sizes, low, high).astype(np.int64) - low
    seen = np.bincount(kept, minlength=len(inner))
    return float(stats.chisquare(seen, expected * len(sizes)).pvalue)


def _largest_p_value(correlations: npt.NDArray[np.float64], steps: int) -> float:
    """How likely independent columns have a correlation this large, by Bonferroni."""
    largest = np.max(np.abs(np.nan_to_num(correlations, nan=1.0)))
    return float(correlations.size * 2 * stats.norm.sf(largest * np.sqrt(steps)))


def _mean_p_value(correlations: npt.NDArray[np.float64], steps: int) -> float:
    """How likely independent columns have a mean correlation this far from nothing."""
    mean = np.mean(np.nan_to_num(correlations, nan=1.0))
    return float(2 * stats.norm.sf(abs(mean) * np.sqrt(correlations.size * steps)))
