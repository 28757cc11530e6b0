"""Two-sided statistical tests of noise: neither too little nor too much, and independent.

Each test returns whether what it looks at passes, so that broken twins can be tried too.
All of them share one promise: if up to `MOST_TESTS` of them are run on sound noise, the
chance that any one of them raises an alarm is at most `FAMILY_ALPHA`. At 100,000 draws a
scale that is off by 5% either way is seen with near certainty all the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from scipy import stats

FAMILY_ALPHA = 1e-6
MOST_TESTS = 1000
ALPHA = FAMILY_ALPHA / MOST_TESTS
"""False alarms: of all tests together, and of one."""

SAMPLES = 100_000
_SHARED_BY_NO_CHANCE = 10

FEWEST_IN_A_GROUP = 1000
"""Coordinates that are judged by themselves: of so many, a scale that is off by a third is seen
with near certainty, and of 20,000 one that is off by a twelfth."""

Floats = npt.NDArray[np.float64]


class NormalSource(Protocol):
    """What draws standard normal values."""

    def normal(self, shape: int) -> torch.Tensor: ...


def fits_normal(values: Floats, deviation: float) -> bool:
    """Whether values fit N(0, deviation^2): Kolmogorov-Smirnov for shape, chi-square for scale."""
    scaled = values / deviation
    shape = float(stats.kstest(scaled, "norm").pvalue)
    return bool(min(shape, spread_p_value(scaled)) > ALPHA / 2)


def spread_p_value(scaled: Floats) -> float:
    """How likely standard normal values have a sum of squares this far out, to either side."""
    below = stats.chi2.cdf(np.sum(scaled**2), df=scaled.size)
    above = stats.chi2.sf(np.sum(scaled**2), df=scaled.size)
    return float(2 * min(below, above))


def is_normal(source: NormalSource, scale: float) -> bool:
    """Whether 100,000 draws of a source have this scale and no other."""
    return fits_normal(source.normal(SAMPLES).double().numpy(), scale)


def are_independent(draws: Floats) -> bool:
    """Whether values hardly ever come again, and neighbours and halves are uncorrelated."""
    if len(np.unique(draws)) < 0.95 * len(draws):  # float32 itself makes a few hundred meet
        return False
    pairs = [(draws[:-lag], draws[lag:]) for lag in (1, 2, len(draws) // 2)]
    values = [stats.pearsonr(a, b).pvalue for a, b in pairs]
    values += [stats.pearsonr(a**2, b**2).pvalue for a, b in pairs]
    return bool(min(values) > ALPHA / len(values))


def ignores_signal(noise: Floats, signal: Floats, deviation: float) -> bool:
    """Whether what was added to these exact values is N(0, deviation^2) whatever they are.

    Two-sided for the scale where the signal is nothing, small (up to the median of what is not
    zero), large, negative and positive, each by itself; and neither the noise nor its size may
    have a rank correlation with the signal's. Where there is no signal nothing can be said, and
    that is refused.
    """
    size = np.abs(signal)
    middle = float(np.median(size[size > 0])) if size.any() else 0.0
    small = (size > 0) & (size <= middle)
    if min(small.sum(), (size == 0).sum()) < FEWEST_IN_A_GROUP:
        raise ValueError(f"signals of zero and others must have {FEWEST_IN_A_GROUP} values each.")
    groups = (size == 0, small, size > middle, signal < 0, signal > 0)
    judged = [noise[group] for group in groups if group.sum() >= FEWEST_IN_A_GROUP]
    values = [spread_p_value(some / deviation) for some in judged]
    values += [
        float(stats.spearmanr(noise, signal).pvalue),
        float(stats.spearmanr(np.abs(noise), size).pvalue),
    ]
    return bool(min(values) > ALPHA / len(values))


def are_unrelated(draws: Sequence[Floats]) -> bool:
    """Whether no two of several draws are correlated, place by place.

    Noise that was used twice shows here even where rounding behind it, beside another signal,
    leaves no two values equal.
    """
    pairs = [(a[: len(b)], b[: len(a)]) for a, b in combinations(draws, 2)]
    values = [float(stats.pearsonr(a, b).pvalue) for a, b in pairs]
    return not values or min(values) > ALPHA / len(values)


def has_independent_draws(source: NormalSource) -> bool:
    """Whether 100,000 draws of a source are independent of one another."""
    return are_independent(source.normal(SAMPLES).double().numpy())


def streams_differ(make: Callable[[], NormalSource]) -> bool:
    """Whether two sources made alike share no more values than chance gives them.

    Of a thousand float32 values each, two sources share one about once in thirty times, and ten
    never; streams that overlap share hundreds.
    """
    one, two = make().normal(1000).double(), make().normal(1000).double()
    return np.intersect1d(one.numpy(), two.numpy()).size < _SHARED_BY_NO_CHANCE


def forked_child_differs(source: NormalSource) -> bool:
    """Whether a forked child and its parent go on to draw different values."""
    source.normal(3)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, source.normal(64).double().numpy().tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        theirs = np.frombuffer(pipe.read())
    os.waitpid(child, 0)
    ours = source.normal(64).double().numpy()
    return theirs.size == 64 and not np.intersect1d(ours, theirs).size
