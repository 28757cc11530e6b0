"""Confidence intervals, each with the sources of chance that it covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, hypot, sqrt
from statistics import NormalDist, fmean

from understudy.evaluation.metric import CONFIDENCE

ClassCounts = Sequence[tuple[int, int]]
"""Of each class: how many records were recognised, of how many."""


@dataclass(frozen=True)
class Interval:
    """An estimate with the limits of its confidence interval."""

    value: float
    low: float
    high: float

    def within(self, low: float, high: float | None = None) -> Interval:
        """The same estimate with limits cut to the bounds of the quantity."""
        top = self.high if high is None else min(self.high, high)
        return Interval(self.value, max(self.low, low), max(top, self.value))


def wilson(share: float, count: float) -> Interval:
    """Wilson's interval for a proportion seen in `count` independent trials.

    A `count` that is not whole stands for trials of another kind that vary as much.

    >>> wilson(0.5, 100).low.__round__(4), wilson(1.0, 100).low.__round__(4)
    (0.4038, 0.963)
    """
    z = _normal_quantile()
    spread = z * sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    centre = share + z**2 / (2 * count)
    scale = 1 + z**2 / count
    low, high = (centre - spread) / scale, (centre + spread) / scale
    return Interval(share, min(max(low, 0.0), share), max(min(high, 1.0), share))


def clopper_pearson(hits: int, count: int) -> Interval:
    """The exact interval for a proportion; it never covers less than it says.

    >>> clopper_pearson(0, 100).low, clopper_pearson(0, 100).high.__round__(4)
    (0.0, 0.0362)
    """
    from scipy.special import betaincinv  # here: where classifiers are trained is no scipy

    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(hits, count - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, count - hits, 1 - tail)) if hits < count else 1.0
    return Interval(hits / count, low, high)


def mean_accuracy(accuracies: Sequence[float], count: float) -> Interval:
    """The mean accuracy of classifiers trained with several seeds, all tested on one set.

    Covers the draw of the `count` test records (Wilson at the mean accuracy) and the seeds
    of training (Student's t over the seeds), added in quadrature as independent errors. It
    does not cover the draw of the training records: another synthetic set, or another run
    of the method, may lie outside. With one seed only the test records are covered.
    """
    centre = fmean(accuracies)
    records = wilson(centre, count)
    seeds = 0.0
    if len(accuracies) > 1:
        seeds = student_half_width(accuracies)
    return Interval(
        centre,
        centre - hypot(centre - records.low, seeds),
        centre + hypot(records.high - centre, seeds),
    ).within(0.0, 1.0)


def mean_balanced_accuracy(by_seed: Sequence[ClassCounts]) -> Interval:
    """The mean over classes of the share recognised, averaged over classifiers of several seeds.

    Covers what `mean_accuracy` covers. The draw of test records counts class by class: Wilson at
    the number of records with which a plain share would vary as much as this mean does, each
    class's own variance being taken after one right and one wrong answer more, so that a class
    of which all or none were recognised has some.

    >>> mean_balanced_accuracy([((90, 90), (0, 10))]).value
    0.5
    """
    values = [fmean(recalls(counts)) for counts in by_seed]
    means, variances = zip(*(_smoothed(counts) for counts in by_seed), strict=True)
    centre = fmean(means)
    return mean_accuracy(values, centre * (1 - centre) / fmean(variances))


def recalls(counts: ClassCounts) -> tuple[float, ...]:
    """The share recognised of each class that occurs."""
    return tuple(right / of for right, of in counts if of)


def _smoothed(counts: ClassCounts) -> tuple[float, float]:
    """The mean over the classes that occur and its variance, with two answers more in each."""
    shares = [((right + 1) / (of + 2), of + 2) for right, of in counts if of]
    variance = fsum(share * (1 - share) / of for share, of in shares) / len(shares) ** 2
    return fmean(share for share, _ in shares), variance


def student_half_width(values: Sequence[float]) -> float:
    """Half the width of the t interval for the mean of independent values."""
    from scipy.special import stdtrit

    freedom, centre = len(values) - 1, fmean(values)
    deviation = sqrt(fsum((value - centre) ** 2 for value in values) / freedom)
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * deviation / sqrt(len(values))


def normal(value: float, standard_error: float) -> Interval:
    """The interval of an estimate that is close to normal with this standard error."""
    half = _normal_quantile() * standard_error
    return Interval(value, value - half, value + half)


def _normal_quantile() -> float:
    return NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
