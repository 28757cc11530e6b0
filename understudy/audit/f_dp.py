"""The f-DP audit in one run of Mahloujifar, Melis and Chaudhuri (2024), arXiv:2410.22235.

The same game as in `one_run`, held against a whole trade-off curve instead of one pair
(epsilon, delta), which uses what a mechanism promises about rare outcomes too and so shows
far more of the truth.

Let p_i be the probability of exactly i right guesses among r, about m fair coins. If the
mechanism is f-DP for each coin, then with F = 1 - f, for every i (their Theorem 9):

    sum_{j > i} j p_j / m  <=  F( sum_{j >= i} (r - j) p_j / m )

A tail of probability tau at `correct` or more therefore forces probability onto the counts
below it, one after the other. `mass_forced` adds up the least that is forced; more than 1
is a contradiction, so the tail is less likely than tau.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy.audit.search import largest_rejected
from understudy.audit.trade_off import Family, Inverse

Reals = npt.NDArray[np.float64]


def mass_forced(
    inverse: Inverse, *, canaries: int, guesses: int, correct: int, tail: float, curves: int = 1
) -> Reals:
    """The least total probability that goes with `tail` at `correct` or more right guesses.

    Taking at each count the least that is forced gives the least total: mass added at
    count i moves both sides of every later inequality, but never lowers the sum of the two
    (tests hold it against a linear programme). One value for each of the `curves` that
    `inverse` stands for.
    """
    total = np.full(curves, tail)
    right = np.full(curves, tail * correct / canaries)
    wrong = np.full(curves, tail * (guesses - correct) / canaries)
    for count in range(correct - 1, -1, -1):
        added = np.maximum(inverse(right) - wrong, 0.0)
        wrong = wrong + added
        right = right + added * (count / (guesses - count))
        total = total + added * (canaries / (guesses - count))
        if bool((total > 1).all()):
            break
    return total


def contradicts(
    family: Family,
    parameters: Reals,
    *,
    canaries: int,
    guesses: int,
    correct: int,
    confidence: float,
) -> npt.NDArray[np.bool_]:
    """Which of these curves the guesses contradict, at this confidence."""
    forced = mass_forced(
        family.inverse(parameters),
        canaries=canaries,
        guesses=guesses,
        correct=correct,
        tail=1 - confidence,
        curves=len(parameters),
    )
    return np.asarray(forced > 1)


def lower_bound(
    family: Family,
    *,
    canaries: int,
    guesses: int,
    correct: int,
    delta: float,
    confidence: float,
) -> float:
    """The epsilon, at `delta`, of the least private curve of `family` that is contradicted.

    Guarantee: if the mechanism's trade-off curve is one of the family's, then with
    probability at least `confidence` this is at most its epsilon at `delta`. All settings,
    and the family, must have been fixed before the coins were tossed.
    """

    def rejected(parameters: Reals) -> npt.NDArray[np.bool_]:
        return contradicts(
            family,
            parameters,
            canaries=canaries,
            guesses=guesses,
            correct=correct,
            confidence=confidence,
        )

    least, most = family.range
    found = largest_rejected(
        rejected, least, most, points=family.at_once, tolerance=family.tolerance
    )
    return 0.0 if found is None else family.epsilon(found, delta)
