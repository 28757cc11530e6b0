"""The area under the ROC curve with DeLong's standard error."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from understudy.errors import UserError
from understudy.evaluation.intervals import Interval, wilson

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Auroc:
    """An area and how sure it is.

    fewest: records on the smaller side. count: records on both.
    """

    value: float
    standard_error: float
    fewest: int
    count: int

    @property
    def interval(self) -> Interval:
        """Wilson's interval for as many trials as have this standard error.

        It stays between 0 and 1, and a perfect ranking, whose standard error is 0, is no more
        certain than that many trials on the smaller side without a miss.
        """
        trials: float = self.fewest
        if self.standard_error > 0:
            trials = min(self.value * (1 - self.value) / self.standard_error**2, self.count)
        return wilson(self.value, max(trials, 1.0))


def auroc(positive: npt.ArrayLike, negative: npt.ArrayLike) -> Auroc:
    """How often a positive score is above a negative one; equal scores count half.

    The standard error is DeLong's (1988), of the draw of both sides.

    >>> auroc([3.0, 1.0], [2.0, 0.0]).value
    0.75
    """
    high, low = np.asarray(positive, float), np.asarray(negative, float)
    above, below = _placements(high, low)
    variance = sum(_variance(side) / len(side) for side in (above, below))
    sides = (len(high), len(low))
    return Auroc(float(above.mean()), sqrt(variance), min(sides), sum(sides))


def macro_auroc(scores: Numbers, codes: npt.NDArray[np.int64]) -> Auroc:
    """The mean over classes of each class against the rest; absent classes are left out.

    scores: `[N, classes]`. The standard error is that of the mean of the classes' influence
    functions, so that it knows that all classes are ranked on the same records; for two
    classes it is DeLong's.
    """
    present = [c for c in range(scores.shape[1]) if 0 < (codes == c).sum() < len(codes)]
    if not present:
        raise UserError("a ranking needs records of at least two classes.")
    influence = np.zeros(len(codes))
    values = []
    for code in present:
        inside = codes == code
        above, below = _placements(scores[inside, code], scores[~inside, code])
        values.append(float(above.mean()))
        influence[inside] += _centred(above)
        influence[~inside] += _centred(below)
    error = sqrt(float((influence**2).sum())) / len(present)
    fewest = min(min(int((codes == c).sum()), int((codes != c).sum())) for c in present)
    return Auroc(float(np.mean(values)), error, fewest, len(codes))


def _centred(placements: Numbers) -> Numbers:
    """Summed squares of these are the unbiased variance of the side's mean."""
    count = len(placements)
    return np.asarray((placements - placements.mean()) / sqrt(count * max(count - 1, 1)))


def _placements(positive: Numbers, negative: Numbers) -> tuple[Numbers, Numbers]:
    """The share of the other side that each positive is above, and each negative below."""
    if not len(positive) or not len(negative):
        raise UserError("a ranking needs records on both sides.")
    if not (np.isfinite(positive).all() and np.isfinite(negative).all()):
        raise UserError("the scores to be ranked hold values that are not finite numbers.")
    sorted_low, sorted_high = np.sort(negative), np.sort(positive)
    above = np.searchsorted(sorted_low, positive) + np.searchsorted(sorted_low, positive, "right")
    below = np.searchsorted(sorted_high, negative) + np.searchsorted(sorted_high, negative, "right")
    return above / (2 * len(negative)), 1 - below / (2 * len(positive))


def _variance(placements: Numbers) -> float:
    return float(placements.var(ddof=1)) if len(placements) > 1 else 0.0
