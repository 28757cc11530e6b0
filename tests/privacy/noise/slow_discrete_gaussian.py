"""The discrete Gaussian one draw at a time, in fractions; written from the paper.

Canonne, Kamath and Steinke (2020), algorithms 1 to 3, with sigma^2 any fraction. Apart
from the code under test in proposal, acceptance and arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

Below = Callable[[int], int]
"""A uniform whole number from 0 to its argument less one."""


def bernoulli(below: Below, rate: Fraction) -> bool:
    return below(rate.denominator) < rate.numerator


def bernoulli_exp(below: Below, gamma: Fraction) -> bool:
    """Heads with probability exp(-gamma), for any gamma of 0 or above (algorithm 1)."""
    while gamma > 1:
        if not bernoulli_exp(below, Fraction(1)):
            return False
        gamma -= 1
    k = 1
    while bernoulli(below, gamma / k):
        k += 1
    return k % 2 == 1


def discrete_laplace(below: Below, scale: int) -> int:
    """P(y) proportional to exp(-|y| / scale) (algorithm 2)."""
    while True:
        rest = below(scale)
        if not bernoulli_exp(below, Fraction(rest, scale)):
            continue
        whole = 0
        while bernoulli_exp(below, Fraction(1)):
            whole += 1
        size = rest + scale * whole
        if bernoulli(below, Fraction(1, 2)):
            if size == 0:
                continue
            return -size
        return size


def discrete_gaussian(below: Below, variance: Fraction) -> int:
    """P(y) proportional to exp(-y^2 / (2 variance)) (algorithm 3)."""
    scale = math.isqrt(math.floor(variance)) + 1
    while True:
        y = discrete_laplace(below, scale)
        gamma = (abs(y) - variance / scale) ** 2 / (2 * variance)
        if bernoulli_exp(below, gamma):
            return y
