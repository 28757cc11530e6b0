"""Statistical checks of random sources; each takes the source, so broken twins can be tried.

Every check returns whether the source passes. The false-alarm rate is ALPHA per check.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from scipy import stats

ALPHA = 1e-6
SAMPLES = 100_000


class NormalSource(Protocol):
    def normal(self, shape: int) -> torch.Tensor: ...


class BernoulliSource(Protocol):
    def bernoulli(self, count: int, rate: float) -> torch.Tensor: ...


def is_normal(source: NormalSource, scale: float) -> bool:
    """Whether draws fit N(0, scale^2): Kolmogorov-Smirnov for shape, chi-square for scale.

    At 100,000 draws this sees a scale that is off by 5% (trust.md, 3.2: about 2%).
    """
    draws = source.normal(SAMPLES).double().numpy() / scale
    shape = stats.kstest(draws, "norm").pvalue
    below = stats.chi2.cdf(np.sum(draws**2), df=SAMPLES)
    spread = 2 * min(below, 1 - below)
    return bool(min(shape, spread) > ALPHA / 2)


def has_independent_draws(source: NormalSource) -> bool:
    """Whether values hardly ever come again, and neighbours and halves are uncorrelated."""
    draws = source.normal(SAMPLES).double().numpy()
    if len(np.unique(draws)) < 0.95 * SAMPLES:  # float32 itself makes a few hundred meet
        return False
    half = SAMPLES // 2
    pairs = [(draws[:-lag], draws[lag:]) for lag in (1, 2, half)]
    values = [stats.pearsonr(a, b).pvalue for a, b in pairs]
    values += [stats.pearsonr(a**2, b**2).pvalue for a, b in pairs]
    return bool(min(values) > ALPHA / len(values))


def streams_differ(make: Callable[[], NormalSource]) -> bool:
    """Whether two sources made alike share no value at all."""
    one, two = make().normal(1000).double(), make().normal(1000).double()
    return not np.intersect1d(one.numpy(), two.numpy()).size


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


def samples_by_poisson(source: BernoulliSource, rate: float) -> bool:
    """Whether units join rounds independently: of one another, of other rounds, at `rate`.

    Batches of fixed size fail by the variance of the size; units that come in pairs by
    their correlation; shuffled epochs by the correlation between rounds.
    """
    units, rounds = 40, 5000
    joined = torch.stack([source.bernoulli(units, rate) for _ in range(rounds)]).double().numpy()
    sizes = joined.sum(axis=1)
    expected = units * rate * (1 - rate)
    tests = [stats.binomtest(int(sizes.sum()), units * rounds, rate).pvalue]
    spread = (np.var(sizes) - expected) / (expected * np.sqrt(2 / rounds + 1 / (expected * rounds)))
    tests.append(2 * stats.norm.sf(abs(spread)))
    between_units = np.corrcoef(joined.T)[np.triu_indices(units, k=1)]
    between_rounds = [np.corrcoef(joined[:-1, i], joined[1:, i])[0, 1] for i in range(units)]
    for correlations in (between_units, np.asarray(between_rounds)):
        largest = np.max(np.abs(np.nan_to_num(correlations, nan=1.0)))
        tests.append(correlations.size * 2 * stats.norm.sf(largest * np.sqrt(rounds)))
    return bool(min(tests) > ALPHA / len(tests))
