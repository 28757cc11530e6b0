"""The one-run audit of Steinke, Nasr and Jagielski (2023), arXiv:2305.08846.

Every canary joins by a fair coin of its own. Whoever sees the output guesses some of the
coins and leaves the others alone. If the output is (epsilon, delta)-private for each coin,
many right guesses are unlikely; how unlikely is what this module computes, from binomial
probabilities and nothing else.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy.audit.search import largest_rejected

LARGEST_EPSILON = 40.0
"""Nothing above it is looked for: no number of canaries could show it."""

Reals = npt.NDArray[np.float64]


def p_value(
    epsilons: npt.ArrayLike, *, canaries: int, guesses: int, correct: int, delta: float
) -> Reals:
    """How likely `correct` or more right guesses are, at most, for each epsilon.

    Guarantee (their Theorem 5.2): if adding or removing any one canary changes the output
    within (epsilon, delta), then among `guesses` guesses about `canaries` fair coins,
    however they were chosen from the output, `correct` or more are right with at most
    this probability.
    """
    from scipy.stats import binom

    right = 1 / (1 + np.exp(-np.atleast_1d(np.asarray(epsilons, dtype=np.float64))))
    reached = binom.sf(correct - 1, guesses, right)
    if correct < 1 or delta == 0:
        return np.asarray(np.minimum(reached, 1.0))
    below, missing = np.arange(correct - 1, -1, -1), np.arange(1, correct + 1)
    # One epsilon at a time: all together would take gigabytes for millions of canaries.
    helped = np.array([(np.cumsum(binom.pmf(below, guesses, q)) / missing).max() for q in right])
    return np.asarray(np.minimum(reached + 2 * canaries * delta * helped, 1.0))


def lower_bound(
    *, canaries: int, guesses: int, correct: int, delta: float, confidence: float
) -> float:
    """The epsilon that the guesses contradict, and every smaller one.

    Guarantee: with probability at least `confidence` it is at most the true epsilon at
    `delta`. All of `canaries`, `guesses`, `delta` and `confidence` must have been fixed
    before the coins were tossed.
    """

    def rejected(epsilons: Reals) -> npt.NDArray[np.bool_]:
        values = p_value(epsilons, canaries=canaries, guesses=guesses, correct=correct, delta=delta)
        return values <= 1 - confidence

    return largest_rejected(rejected, 0.0, LARGEST_EPSILON, points=64) or 0.0
