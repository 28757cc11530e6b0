"""Trade-off curves: what a mechanism promises, as families ordered from more to less private.

A curve f says how small the errors of anyone can be who tests whether a unit took part.
Audits need F = 1 - f only backwards: `inverse(y)` is the least x with F(x) >= y, that is,
how often an outcome must happen without a unit if it happens with probability y with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from understudy.privacy.accounting.accountants import price
from understudy.privacy.plan.events import DiscreteGaussian, Gaussian, PoissonGaussian
from understudy.privacy.plan.plan import Plan

Reals = npt.NDArray[np.float64]
Inverse = Callable[[Reals], Reals]

_PROFILE_DELTAS = np.geomspace(1e-7, 0.7, 14)
"""Where a plan's cost is asked for; fewer points make a curve less private, never more."""

_PART_OF_A_LOSS = 0.06
"""The grid on which losses are rounded, beside the loss of one release: the rounding then
adds about a thousandth to the variance of their sum."""

_FFT_ALLOWANCE = 1e-9
"""Probability set aside for rounding when losses are composed."""

_LARGEST_EXPONENT = 700.0
"""Of an epsilon that is used in float64; a smaller epsilon would be more private."""


class Family(Protocol):
    """Curves with one parameter, each less private than those before it."""

    @property
    def name(self) -> str: ...

    @property
    def claimed(self) -> float:
        """The parameter of the curve that is claimed."""
        ...

    @property
    def range(self) -> tuple[float, float]:
        """The parameters that are looked at."""
        ...

    @property
    def at_once(self) -> int:
        """How many curves to ask for together: many where they are cheap."""
        ...

    @property
    def tolerance(self) -> float:
        """How closely a parameter is looked for."""
        ...

    def inverse(self, parameters: Reals) -> Inverse:
        """The inverses of several curves: takes and gives one value for each."""
        ...

    def epsilon(self, parameter: float, delta: float) -> float: ...


@dataclass(frozen=True)
class GaussianCurves:
    """mu-GDP: one Gaussian release with noise of 1 / mu times the sensitivity."""

    claimed: float
    name: str = "Gaussian"
    range: tuple[float, float] = (0.0, 40.0)
    at_once: int = 32
    tolerance: float = 1e-4

    def inverse(self, parameters: Reals) -> Inverse:
        from scipy.special import ndtr, ndtri

        def backwards(y: Reals) -> Reals:
            return np.asarray(ndtr(ndtri(np.minimum(y, 1.0)) - parameters))

        return backwards

    def epsilon(self, parameter: float, delta: float) -> float:
        return gaussian_epsilon(parameter, delta)


@dataclass(frozen=True)
class ApproximateCurves:
    """(epsilon, delta)-privacy at one delta; nothing more is assumed of the mechanism."""

    claimed: float
    delta: float
    name: str = "(epsilon, delta)"
    range: tuple[float, float] = (0.0, 40.0)
    at_once: int = 32
    tolerance: float = 1e-4

    def inverse(self, parameters: Reals) -> Inverse:
        return _Lines(parameters[:, None], np.full((len(parameters), 1), self.delta))

    def epsilon(self, parameter: float, delta: float) -> float:
        if delta < self.delta:
            raise ValueError(f"these curves say nothing at a delta below {self.delta}")
        return parameter


@dataclass(frozen=True)
class PlannedCurves:
    """The curve of a plan's own events, with all their noise made larger or smaller.

    The parameter is the logarithm of the factor by which noise *shrinks*: 0 is the plan as
    it stands. A curve is drawn through the plan's price at several deltas, so it is never
    more private than the accountant proves.
    """

    events: Sequence[Gaussian | PoissonGaussian]
    claimed: float = 0.0
    name: str = "the plan with other noise"
    range: tuple[float, float] = (-3.0, 2.5)
    at_once: int = 1
    tolerance: float = 5e-3
    _priced: dict[float, Reals] = field(default_factory=dict, repr=False)

    def inverse(self, parameters: Reals) -> Inverse:
        epsilons = np.stack([self._profile(float(p)) for p in parameters])
        return _Lines(epsilons, np.broadcast_to(_PROFILE_DELTAS, epsilons.shape))

    def epsilon(self, parameter: float, delta: float) -> float:
        return price(self._at(parameter), delta).epsilon

    def _profile(self, parameter: float) -> Reals:
        """Composing is slow, and a bound and its ceiling ask for many of the same."""
        if parameter not in self._priced:
            self._priced[parameter] = _epsilons(self._at(parameter), _PROFILE_DELTAS)
        return self._priced[parameter]

    def _at(self, parameter: float) -> list[Gaussian | PoissonGaussian]:
        factor = math.exp(-parameter)
        return [replace(event, sigma=event.sigma * factor) for event in self.events]


def family_of(plan: Plan) -> Family:
    """The curves to hold a plan's claim against.

    Plain Gaussian releases have a closed form, and discrete ones, on a grid as fine as the
    door's, have the same; with Poisson-sampled ones the plan's own curve is used; of any
    other event only (epsilon, delta) is assumed.
    """
    events = [
        Gaussian(e.sigma, e.count) if isinstance(e, DiscreteGaussian) else e for e in plan.events()
    ]
    known = [e for e in events if isinstance(e, Gaussian | PoissonGaussian)]
    if len(known) < len(events) or not events:
        return ApproximateCurves(plan.epsilon, plan.delta)
    if all(isinstance(event, Gaussian) for event in known):
        return GaussianCurves(gaussian_mu(plan.epsilon, plan.delta))
    return PlannedCurves(tuple(known))


def _epsilons(events: Sequence[Gaussian | PoissonGaussian], deltas: Reals) -> Reals:
    """What the events cost at each of many deltas, composed once; rounded against them."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    interval = _PART_OF_A_LOSS * min(_typical_loss(event) for event in events)
    composed = None
    for event in events:
        one = pld.from_gaussian_mechanism(
            event.sigma,
            value_discretization_interval=float(f"{interval:.3g}"),
            sampling_prob=event.rate if isinstance(event, PoissonGaussian) else 1.0,
        )
        part = one.self_compose(event.count) if event.count > 1 else one
        composed = part if composed is None else composed.compose(part)
    assert composed is not None
    return np.array([composed.get_epsilon_for_delta(d - _FFT_ALLOWANCE) for d in deltas])


def _typical_loss(event: Gaussian | PoissonGaussian) -> float:
    """About the standard deviation of the privacy loss of one release."""
    if isinstance(event, Gaussian):
        return 1 / event.sigma
    return min(event.rate * math.sqrt(math.expm1(min(event.sigma**-2, 500.0))), 1 / event.sigma)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """delta(epsilon) of mu-GDP."""
    from scipy.special import log_ndtr, ndtr

    if mu <= 0:
        return 0.0
    far = math.exp(min(epsilon + float(log_ndtr(-epsilon / mu - mu / 2)), 0.0))
    return max(0.0, float(ndtr(-epsilon / mu + mu / 2)) - far)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """epsilon(delta) of mu-GDP, the exact inverse of `gaussian_delta`."""
    from scipy.optimize import brentq

    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    most = mu * mu / 2 + mu * 40
    return float(brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, most, xtol=1e-10))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu at which mu-GDP costs `epsilon` at `delta`."""
    from scipy.optimize import brentq

    least, most = 1.0, 1.0
    while gaussian_epsilon(least, delta) > epsilon:
        least /= 2
    while gaussian_epsilon(most, delta) < epsilon:
        most *= 2
    return float(brentq(lambda m: gaussian_epsilon(m, delta) - epsilon, least, most, xtol=1e-12))


class _Lines:
    """The inverse of the curves through points (epsilon, delta), [curves, points] each.

    F is the least of the lines delta + e^epsilon x and 1 - e^-epsilon (1 - delta - x), so
    F(x) >= y asks of x what each line asks; the largest of these counts.
    """

    def __init__(self, epsilons: Reals, deltas: Reals) -> None:
        self._deltas = deltas
        # A point beyond what float64 holds says less than nothing: its line asks for 0.
        usable = epsilons <= _LARGEST_EXPONENT
        self._down = np.where(usable, np.exp(-np.minimum(epsilons, _LARGEST_EXPONENT)), 0.0)
        self._up = np.exp(np.minimum(epsilons, _LARGEST_EXPONENT))
        self._usable = usable

    def __call__(self, y: Reals) -> Reals:
        column = np.minimum(y, 1.0)[:, None]
        steep = (column - self._deltas) * self._down
        flat = np.where(self._usable, 1 - self._deltas - self._up * (1 - column), 0.0)
        return np.asarray(np.maximum(np.maximum(steep, flat).max(axis=1), 0.0))
