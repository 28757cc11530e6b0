"""Events merged by kind, checked, and brought into the range where the numerics are trusted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from understudy.errors import UserError
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

SIGMAS = (1e-3, 1e6)
_RATES = (1e-9, 1 - 1e-9)
"""Where the numerics are trusted. Outside, a release is priced as the nearest dearer one:
less noise or a higher rate inside the range, rate 1 above it, and infinity below the
least sigma (where one release alone costs half a million)."""

LOCAL = (LocalGaussian, RandomisedResponse)
_PRICED = (Gaussian, DiscreteGaussian, PoissonGaussian, OneOfShards, *LOCAL)


@dataclass
class Tally:
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


def tally_of(events: Iterable[Event]) -> Tally:
    """These events, merged.

    Guarantee: no event is left out that costs anything, and whatever lies outside the range of
    the numerics is taken for something dearer.
    """
    tally = Tally()
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
        elif event.sigma < SIGMAS[0]:
            tally.hopeless = True
        elif isinstance(event, DiscreteGaussian):
            discrete.append(_precision(event.sigma, event.count))
        elif isinstance(event, PoissonGaussian) and event.rate <= _RATES[1]:
            key = min(event.sigma, SIGMAS[1]), max(event.rate, _RATES[0])
            tally.poisson[key] += event.count
        elif isinstance(event, OneOfShards) and event.shards > 1:
            tally.shards[min(event.sigma, SIGMAS[1]), event.shards] += event.count
        else:  # rate 1 and a single shard are plain Gaussian releases
            precisions.append(_precision(event.sigma, event.count))
    tally.precision, tally.local = math.fsum(precisions), math.fsum(local)
    tally.discrete, tally.responses = math.fsum(discrete), sum(responses)
    return tally


def _precision(sigma: float, count: int) -> float:
    return count / min(sigma, SIGMAS[1]) ** 2 if sigma >= SIGMAS[0] else math.inf


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
