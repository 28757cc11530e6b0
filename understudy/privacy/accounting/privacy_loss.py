"""Privacy loss distributions of Gaussian releases: plain ones exactly, sampled ones on a grid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from understudy.privacy.accounting.tally import SIGMAS, Tally

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SMALLEST_DELTA = 1e-8
"""Below it, rounding in the FFT is no longer small against delta, and RDP is used."""

_FFT_ALLOWANCE = 1e-10
"""Probability set aside for rounding in the FFT, for up to a million compositions."""

_MOST_STEPS = 20_000_000
"""Beyond it a composition takes minutes or does not end, and RDP is used."""

_INTERVALS = (1e-8, 10.0)
_MOST_POINTS = 500_000
"""The finest and the coarsest grid of privacy losses, and the longest."""


def gaussian_epsilon(precision: float, delta: float) -> float:
    """The epsilon of Gaussian releases whose 1/sigma^2 sum to `precision`.

    Guarantee: the exact epsilon of their composition, rounded up by the solver's tolerance.
    """
    import numpy as np
    from dp_accounting import get_epsilon_gaussian

    if precision > 1 / SIGMAS[0] ** 2:
        return math.inf
    with np.errstate(divide="ignore"):  # a delta of 0 on the way to the solution
        epsilon = float(get_epsilon_gaussian(1 / math.sqrt(precision), delta))
    solver_tolerance = 1e-12
    return epsilon * (1 + solver_tolerance) + 2 * solver_tolerance if epsilon > 0 else 0.0


def pld_epsilon(tally: Tally, delta: float) -> float:
    """Gaussian and Poisson-sampled Gaussian events, composed on one grid of privacy losses.

    Guarantee: an upper bound under adding or removing one unit, whatever the grid, which only
    decides how tight it is. Infinite where the losses are too large for any useful grid, the
    steps too many or delta too small.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    steps = sum(tally.poisson.values())
    if steps > _MOST_STEPS or delta < _SMALLEST_DELTA:
        return math.inf
    interval = _grid_interval(tally)
    delta -= _FFT_ALLOWANCE * max(1.0, steps / 1e6)
    if interval is None or delta <= 0:
        return math.inf
    composed: Any = None
    if tally.precision:
        composed = pld.from_gaussian_mechanism(
            1 / math.sqrt(tally.precision), value_discretization_interval=interval
        )
    for (sigma, rate), count in sorted(tally.poisson.items()):
        part = pld.from_gaussian_mechanism(
            sigma, value_discretization_interval=interval, sampling_prob=rate
        ).self_compose(count)
        composed = part if composed is None else composed.compose(part)
    epsilon = float(composed.get_epsilon_for_delta(delta))
    return math.inf if math.isnan(epsilon) else epsilon


def _grid_interval(tally: Tally) -> float | None:
    """How finely privacy losses are rounded, or None where they are too large to hold.

    Rounding each of T losses to a grid of step h adds about T h^2 / 4 to the variance V of
    their sum; h keeps that near a thousandth of V (measured: under 0.1% of epsilon), and
    above what would need more than a few hundred thousand points. Three digits are kept,
    so that another machine finds the same grid.
    """
    variance, widest = tally.precision, 20 * math.sqrt(tally.precision)
    for (sigma, rate), count in tally.poisson.items():
        width, step_variance = _loss_of_one_release(sigma, rate)
        variance += count * step_variance
        widest = max(widest, width)
    total = 20 * math.sqrt(variance) + widest
    steps = sum(tally.poisson.values()) + bool(tally.precision)
    wanted = min(math.sqrt(4e-3 * variance / steps), total / 10_000, _INTERVALS[1])
    interval = max(wanted, 5 * widest / _MOST_POINTS, total / _MOST_POINTS, _INTERVALS[0])
    return float(f"{interval:.3g}") if interval <= _INTERVALS[1] else None


def _loss_of_one_release(sigma: float, rate: float) -> tuple[float, float]:
    """Width of the range, and variance, of the privacy loss of one sampled Gaussian."""
    import numpy as np

    z = np.linspace(-10, 10, 2001)
    weight = np.exp(-(z**2) / 2)
    weight /= weight.sum()

    def loss(x: NDArray[np.float64]) -> NDArray[np.float64]:
        exponent = (2 * x - 1) / (2 * sigma**2)
        return np.logaddexp(math.log1p(-rate), math.log(rate) + exponent)

    out, taken = loss(sigma * z), loss(1 + sigma * z)
    mean = (1 - rate) * (weight @ out) + rate * (weight @ taken)
    variance = (1 - rate) * (weight @ (out - mean) ** 2) + rate * (weight @ (taken - mean) ** 2)
    return float(taken[-1] - out[0]), float(variance)
