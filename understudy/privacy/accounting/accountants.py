"""What events cost: from a list of events to one epsilon at a given delta.

Central events compose by privacy loss distributions (PLD), rounded against us, under
adding or removing one unit. One-of-shards and discrete Gaussian events have no PLD form
here; a list that holds one is charged by adding Renyi (RDP) curves order by order and
converting once.
The prices are upper bounds: rounding, truncation and discretisation all go up.

`dp_accounting` is imported inside the functions, so that importing this module is cheap.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from understudy.errors import PrivacyError, UserError
from understudy.privacy.plan.events import (
    DiscreteGaussian,
    Event,
    Gaussian,
    LocalGaussian,
    NonPrivate,
    OneOfShards,
    PoissonGaussian,
    RandomisedResponse,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SMALLEST_PLD_DELTA = 1e-8
"""Below it, rounding in the FFT is no longer small against delta, and RDP is used."""

_FFT_ALLOWANCE = 1e-10
"""Probability set aside for rounding in the FFT, for up to a million compositions."""

_MOST_PLD_STEPS = 20_000_000
"""Beyond it a composition takes minutes or does not end, and RDP is used."""

_RDP_SLACK = 1e-14
"""Added to every release's curve: covers rounding where the true curve is almost zero."""

_LINE_ORDERS = (1e-2, 1e7)
_LINE_POINTS = 2001
"""How far above 1 the orders are taken where every curve is a straight line, and how many;
any order gives a sound price, and these one within 1e-4 of the best."""

_SIGMAS = (1e-3, 1e6)
_RATES = (1e-9, 1 - 1e-9)
"""Where the numerics are trusted. Outside, a release is priced as the nearest dearer one:
less noise or a higher rate inside the range, rate 1 above it, and infinity below the
least sigma (where one release alone costs half a million)."""

_INTERVALS = (1e-8, 10.0)
_MOST_POINTS = 500_000
"""The finest and the coarsest grid of privacy losses, and the longest."""


_LOCAL = (LocalGaussian, RandomisedResponse)
_PRICED = (Gaussian, DiscreteGaussian, PoissonGaussian, OneOfShards, *_LOCAL)


@dataclass(frozen=True)
class Cost:
    """An epsilon, and the accountant (method, package, version) that computed it."""

    epsilon: float
    accountant: str


def price(events: Iterable[Event], delta: float) -> Cost:
    """The epsilon at `delta` of all `events`, composed.

    Guarantee: an upper bound on the epsilon of the sequential, adaptive composition of
    the events, in any order, under adding or removing one unit. A one-of-shards event is
    charged under replacing one shard, which is what adding or removing a unit does.
    No events cost exactly 0; a non-private event costs infinity.

    >>> round(price([Gaussian(sigma=5.0)], delta=1e-5).epsilon, 4)
    0.7255
    """
    _check_delta(delta)
    tally = _tally(events)
    if tally.has_local:
        raise PrivacyError(
            "a local event has no place in a central price; price it alone with local_price."
        )
    if tally.non_private:
        return Cost(math.inf, "none: records leave without protection")
    if tally.hopeless:
        return Cost(math.inf, "none: hardly any noise")
    if tally.is_empty:
        return Cost(0.0, "none: nothing is spent")
    if not (tally.poisson or tally.shards or tally.discrete):
        return Cost(
            _gaussian_epsilon(tally.precision, delta), _name("PLD in closed form (Gaussian)")
        )
    few = sum(tally.poisson.values()) <= _MOST_PLD_STEPS
    if not (tally.shards or tally.discrete) and few and delta >= _SMALLEST_PLD_DELTA:
        epsilon = _pld_epsilon(tally, delta)
        if math.isfinite(epsilon):
            return Cost(epsilon, _name("PLD"))
    return Cost(_rdp_epsilon(tally, delta), _name("RDP"))


def alone(event: Event, delta: float) -> Cost:
    """What one event would cost by itself; such prices do not add up to the composed one."""
    return local_price([event], delta) if isinstance(event, _LOCAL) else price([event], delta)


def local_price(events: Iterable[Event], delta: float) -> Cost:
    """The epsilon of local releases of one record, composed.

    Guarantee: every record leaves with Gaussian noise of `sigma` times the L2 sensitivity
    under *replacing* it; the price is per record, replace-one, by the closed form of the
    Gaussian mechanism. Randomised responses (delta 0) add their epsilons to it. Central
    events are refused: the two relations do not compose.
    """
    _check_delta(delta)
    tally = _tally(events)
    if not tally.is_empty:
        raise PrivacyError("a central event has no place in a local price; use price.")
    if tally.non_private:
        return Cost(math.inf, "none: records leave without protection")
    if not (tally.local or tally.responses):
        return Cost(0.0, "none: nothing is spent")
    noise = _gaussian_epsilon(tally.local, delta) if tally.local else 0.0
    return Cost(noise + tally.responses, _name("closed form of the Gaussian mechanism"))


@dataclass
class _Tally:
    """Events merged: a precision is the sum of 1/sigma^2, in which Gaussians compose exactly.

    discrete: the same sum over discrete Gaussians, twice their zero-concentrated cost.
    responses: the epsilons of randomised responses, which add up.
    """

    precision: float = 0.0
    discrete: float = 0.0
    local: float = 0.0
    responses: float = 0.0
    has_local: bool = False
    poisson: Counter[tuple[float, float]] = field(default_factory=Counter)
    shards: Counter[tuple[float, int]] = field(default_factory=Counter)
    non_private: bool = False
    hopeless: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.precision or self.discrete or self.poisson or self.shards)


def _tally(events: Iterable[Event]) -> _Tally:
    tally = _Tally()
    precisions: list[float] = []
    local: list[float] = []
    responses: list[float] = []
    discrete: list[float] = []
    for event in events:
        if isinstance(event, NonPrivate):
            tally.non_private = True
            continue
        _check_event(event)
        if isinstance(event, LocalGaussian):
            tally.has_local = True
            local.append(_precision(event.sigma, event.count) if event.count else 0.0)
        elif isinstance(event, RandomisedResponse):
            tally.has_local = True
            responses.append(event.epsilon * event.count)
        elif event.count == 0 or (isinstance(event, PoissonGaussian) and event.rate == 0):
            continue
        elif event.sigma < _SIGMAS[0]:
            tally.hopeless = True
        elif isinstance(event, DiscreteGaussian):
            discrete.append(_precision(event.sigma, event.count))
        elif isinstance(event, PoissonGaussian) and event.rate <= _RATES[1]:
            key = min(event.sigma, _SIGMAS[1]), max(event.rate, _RATES[0])
            tally.poisson[key] += event.count
        elif isinstance(event, OneOfShards) and event.shards > 1:
            tally.shards[min(event.sigma, _SIGMAS[1]), event.shards] += event.count
        else:  # rate 1 and a single shard are plain Gaussian releases
            precisions.append(_precision(event.sigma, event.count))
    tally.precision, tally.local = math.fsum(precisions), math.fsum(local)
    tally.discrete, tally.responses = math.fsum(discrete), sum(responses)
    return tally


def _precision(sigma: float, count: int) -> float:
    return count / min(sigma, _SIGMAS[1]) ** 2 if sigma >= _SIGMAS[0] else math.inf


def _check_event(event: Event) -> None:
    if not isinstance(event, _PRICED):
        raise UserError(f"the accountants do not know the event {event!r}, so it has no price.")
    name = "epsilon" if isinstance(event, RandomisedResponse) else "sigma"
    if not (math.isfinite(getattr(event, name)) and getattr(event, name) >= 0):
        raise UserError(f"{name} of {event!r} must be a finite number, 0 or above.")
    if not isinstance(event.count, int) or event.count < 0:
        raise UserError(f"count of {event!r} must be a whole number, 0 or above.")
    if isinstance(event, PoissonGaussian) and not 0 <= event.rate <= 1:
        raise UserError(f"rate of {event!r} must lie between 0 and 1.")
    if isinstance(event, OneOfShards) and not (isinstance(event.shards, int) and event.shards > 0):
        raise UserError(f"shards of {event!r} must be a whole number above 0.")


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise UserError(f"delta must lie between 0 and 1 (1e-5, say), not {delta!r}.")


def _name(method: str) -> str:
    return f"{method}, dp_accounting {version('dp-accounting')}"


def _gaussian_epsilon(precision: float, delta: float) -> float:
    """The exact epsilon of Gaussian releases whose 1/sigma^2 sum to `precision`."""
    import numpy as np
    from dp_accounting import get_epsilon_gaussian

    if precision > 1 / _SIGMAS[0] ** 2:
        return math.inf
    with np.errstate(divide="ignore"):  # a delta of 0 on the way to the solution
        epsilon = float(get_epsilon_gaussian(1 / math.sqrt(precision), delta))
    solver_tolerance = 1e-12
    return epsilon * (1 + solver_tolerance) + 2 * solver_tolerance if epsilon > 0 else 0.0


def _pld_epsilon(tally: _Tally, delta: float) -> float:
    """Gaussian and Poisson-sampled Gaussian events, composed on one grid of privacy losses.

    Pessimistic whatever the grid, which only decides how tight the price is. Infinite
    where the losses are too large for any useful grid.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    interval = _grid_interval(tally)
    steps = sum(tally.poisson.values())
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


def _grid_interval(tally: _Tally) -> float | None:
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


@contextmanager
def _quiet_absl() -> Iterator[None]:
    """dp_accounting warns of each order that it leaves out; leaving one out is sound."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _rdp_epsilon(tally: _Tally, delta: float) -> float:
    """All events by Renyi curves added order by order, converted once.

    Gaussian and Poisson-sampled Gaussian curves are under add-or-remove, one-of-shards
    curves under replace-one over shards. The curve of a discrete Gaussian is at most that
    of the Gaussian with its sigma, order / (2 sigma^2), in any number of dimensions
    (Canonne, Kamath and Steinke 2020, proposition 5 and additivity).

    The conversion is theirs too, tighter than the classical one: 640,000 releases on one of
    1,000 shards at sigma 1.07 cost 9.24 at delta 1e-5, where autodp's figure for the same
    curve is 9.99.
    """
    import numpy as np
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    orders = np.asarray(rdp.DEFAULT_RDP_ORDERS, dtype=np.float64)
    if not (tally.poisson or tally.shards):  # a straight line: known at every order
        orders = 1 + np.geomspace(*_LINE_ORDERS, _LINE_POINTS)
    total = orders * (tally.precision + tally.discrete) / 2 * (1 + _RDP_SLACK)
    for (sigma, rate), count in sorted(tally.poisson.items()):
        total = total + count * _poisson_curve(sigma, rate)
    for (sigma, shards), count in sorted(tally.shards.items()):
        total = total + count * _one_of_shards_curve(sigma, shards)
    return float(rdp.compute_epsilon(orders, total, delta)[0])


@lru_cache(maxsize=256)
def _poisson_curve(sigma: float, rate: float) -> NDArray[np.float64]:
    import dp_accounting as dp

    event = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma))
    return _curve(event, dp.NeighboringRelation.ADD_OR_REMOVE_ONE)


@lru_cache(maxsize=256)
def _one_of_shards_curve(sigma: float, shards: int) -> NDArray[np.float64]:
    """Sampling one of K shards without replacement, under replacing one shard.

    `sigma` is the noise over the sensitivity to *replacing* one shard's contribution: the
    convention of dp_accounting too, whose curve is the one of Wang, Balle and
    Kasiviswanathan (2019) for a Gaussian with Renyi divergence order / (2 sigma^2). Where
    its high differences cancel (large sigma, high order), rounding makes it too high,
    never too low.
    """
    import dp_accounting as dp

    event = dp.SampledWithoutReplacementDpEvent(shards, 1, dp.GaussianDpEvent(sigma))
    return _curve(event, dp.NeighboringRelation.REPLACE_ONE)


def _curve(event: object, relation: object) -> NDArray[np.float64]:
    """The Renyi curve of one release at the default orders, rounded up."""
    import numpy as np
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    with np.errstate(all="ignore"), _quiet_absl():
        computed = rdp.RdpAccountant(neighboring_relation=relation).compose(event).rdp
    computed = np.where(np.isnan(computed), math.inf, computed)
    curve: NDArray[np.float64] = np.maximum(computed, 0) + _RDP_SLACK
    curve.flags.writeable = False  # the cache hands it out again
    return curve
