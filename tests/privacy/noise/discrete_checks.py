"""Statistical checks of discrete Gaussian draws; each takes the draws, so twins can be tried.

Every check returns whether the draws pass. The false-alarm rate is ALPHA per check.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import stats

from understudy.audit.noise_tests import ALPHA

Draws = npt.NDArray[np.int64]
_BINS = 200
_FEWEST_EXPECTED = 50


def probabilities(scale: float, furthest: int) -> npt.NDArray[np.float64]:
    """Of -furthest to furthest, by their definition; for small scales."""
    y = np.arange(-furthest, furthest + 1, dtype=np.float64)
    weights = np.exp(-(y**2) / (2 * scale**2))
    everywhere = np.arange(-math.ceil(40 * scale), math.ceil(40 * scale) + 1, dtype=np.float64)
    total = math.fsum(np.exp(-(everywhere**2) / (2 * scale**2)))
    return weights / total


def fits(draws: Draws, scale: float) -> bool:
    """Two-sided: the frequency of every value (or of 200 ranges), and the mean square.

    At 100,000 draws the mean square alone sees a scale that is off by 2%.
    """
    small = scale < 100
    counts, expected = _by_value(draws, scale) if small else _by_range(draws, scale)
    shape = stats.chisquare(counts, expected).pvalue
    variance = _variance(scale) if small else scale**2
    # The fourth moment is the normal's to within rounding from scale 1 on.
    excess = np.mean(draws.astype(np.float64) ** 2) / variance - 1
    spread = 2 * stats.norm.sf(abs(excess) / math.sqrt(2 / len(draws)))
    return bool(min(shape, spread) > ALPHA / 2)


def _by_value(draws: Draws, scale: float) -> tuple[Draws, npt.NDArray[np.float64]]:
    furthest = 1
    while len(draws) * probabilities(scale, furthest)[0] > _FEWEST_EXPECTED:
        furthest += 1
    expected = len(draws) * probabilities(scale, furthest)
    beyond = (len(draws) - expected.sum()) / 2
    expected[[0, -1]] += beyond
    held = np.clip(draws, -furthest, furthest)
    return np.bincount(held + furthest, minlength=len(expected)), expected


def _by_range(draws: Draws, scale: float) -> tuple[Draws, npt.NDArray[np.float64]]:
    """Ranges of equal probability; at such scales sums and integrals agree to 1e-10."""
    inner = np.floor(scale * stats.norm.ppf(np.arange(1, _BINS) / _BINS)) + 0.5
    edges = stats.norm.cdf(inner / scale)
    shares = np.diff(np.concatenate(([0.0], edges, [1.0])))
    return np.bincount(np.searchsorted(inner, draws), minlength=_BINS), len(draws) * shares


def _variance(scale: float) -> float:
    furthest = math.ceil(40 * scale)
    y = np.arange(-furthest, furthest + 1, dtype=np.float64)
    return float(np.sum(y**2 * probabilities(scale, furthest)))


def has_tails(draws: Draws, scale: int) -> bool:
    """Whether values beyond 3 and 4 scales come as often as they should, on either side."""
    tests = []
    for times in (3, 4):
        rate = stats.norm.sf((math.floor(times * scale) + 0.5) / scale)
        for side in (draws, -draws):
            beyond = int((side > times * scale).sum())
            tests.append(stats.binomtest(beyond, len(draws), rate).pvalue)
    return bool(min(tests) > ALPHA / len(tests))


def is_symmetric(draws: Draws, scale: float) -> bool:
    """Whether both signs, and zero, come as often as they should."""
    positive, negative = int((draws > 0).sum()), int((draws < 0).sum())
    signs = stats.binomtest(positive, max(1, positive + negative), 0.5).pvalue
    zero_rate = float(probabilities(scale, 0)[0])
    zeros = stats.binomtest(int((draws == 0).sum()), len(draws), zero_rate).pvalue
    return bool(min(signs, zeros) > ALPHA / 2)


def are_independent(draws: Draws) -> bool:
    """Whether neighbours and halves are uncorrelated, in value and in square."""
    values = draws.astype(np.float64)
    pairs = [(values[:-lag], values[lag:]) for lag in (1, 2, 3, len(values) // 2)]
    tests = [stats.pearsonr(a, b).pvalue for a, b in pairs]
    tests += [stats.pearsonr(a**2, b**2).pvalue for a, b in pairs]
    return bool(min(tests) > ALPHA / len(tests))
