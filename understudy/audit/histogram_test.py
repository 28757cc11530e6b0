"""Does one mechanism, run many times on two neighbours, keep its (epsilon, delta)?

The test joins what other tests look at apart: what is computed, what is added to it, and
what it is priced at. It sees gross mistakes only (half the noise, twice the sensitivity, a
release that is charged as if sampled), but it knows nothing of how a mechanism works.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import stats

from understudy.audit.noise_tests import ALPHA

EPSILON = math.log(3)
DELTA = 0.05
"""At such a budget a mechanism has so little noise that some tens of thousands of runs can
tell a broken one."""

_BINS = 40
Floats = npt.NDArray[np.float64]


def keeps_its_promise(
    on_one: Floats, on_other: Floats, epsilon: float = EPSILON, delta: float = DELTA
) -> bool:
    """Whether outputs on two neighbours are as close as (epsilon, delta) says, both ways."""
    return not (
        exceeds(on_one, on_other, epsilon, delta) or exceeds(on_other, on_one, epsilon, delta)
    )


def exceeds(likely: Floats, unlikely: Floats, epsilon: float, delta: float) -> bool:
    """Whether some set has P[likely] > e^epsilon P[unlikely] + delta, beyond doubt.

    Half of the outputs choose the set (bins of a histogram in which the first are too
    frequent); the other half are counted in it, so that the choice costs no confidence.
    Both shares are bounded as Clopper and Pearson do.
    """
    edges = _edges(likely, unlikely)
    chosen = _too_frequent(likely[::2], unlikely[::2], edges, epsilon)
    at_least = _bound(_inside(likely[1::2], edges, chosen), len(likely[1::2]), lower=True)
    at_most = _bound(_inside(unlikely[1::2], edges, chosen), len(unlikely[1::2]), lower=False)
    return at_least > math.exp(epsilon) * at_most + delta


def _edges(one: Floats, other: Floats) -> Floats:
    both = np.concatenate((one[::2], other[::2]))
    inner = np.unique(np.quantile(both, np.linspace(0, 1, _BINS + 1)[1:-1]))
    return np.concatenate(([-np.inf], inner, [np.inf]))


def _too_frequent(
    likely: Floats, unlikely: Floats, edges: Floats, epsilon: float
) -> npt.NDArray[np.bool_]:
    p = np.histogram(likely, edges)[0] / len(likely)
    q = np.histogram(unlikely, edges)[0] / len(unlikely)
    chosen: npt.NDArray[np.bool_] = p > math.exp(epsilon) * q
    return chosen


def _inside(values: Floats, edges: Floats, chosen: npt.NDArray[np.bool_]) -> int:
    return int(np.histogram(values, edges)[0][chosen].sum())


def _bound(successes: int, trials: int, lower: bool) -> float:
    """A bound on a share that fails with probability ALPHA / 4."""
    if lower:
        return (
            float(stats.beta.ppf(ALPHA / 4, successes, trials - successes + 1))
            if successes
            else 0.0
        )
    missing = trials - successes
    return float(stats.beta.isf(ALPHA / 4, successes + 1, missing)) if missing else 1.0
