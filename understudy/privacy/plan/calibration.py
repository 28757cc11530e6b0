"""From a budget to a plan: the noise multiplier at which everything planned just fits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from understudy.errors import UserError
from understudy.privacy.accounting.accountants import Cost, local_price, price
from understudy.privacy.plan.events import (
    Event,
    Gaussian,
    LocalEvent,
    NonPrivate,
    OneOfShards,
    PoissonGaussian,
    RandomisedResponse,
)
from understudy.privacy.plan.mechanisms import Mechanism
from understudy.privacy.plan.plan import LOCAL_RELATION, RELATION, Budget, Plan, Spend

_LEAST_USED = 0.99
_GOOD_ENOUGH = 0.995
_AIM = 0.998
"""Parts of the target: promised, accepted at once, and aimed at."""

_SIGMAS = (1e-3, 1e6)
"""Where sigma is searched: from a cost of half a million to one of next to nothing."""

_MOST_PRICES = 60

NOMINAL_SIGMA = 1.0
"""What `spend` is asked with where noise is not calibrated."""


def calibrate(budget: Budget, spend: Spend) -> Plan:
    """The plan with the least noise whose composed cost stays within `budget`.

    Guarantee: the plan's epsilon, by `price` on its own events at the budget's delta under
    adding or removing one unit (or by `local_price`, replacing one record, where all of them
    are local), is at most the target. It is at least 0.99 of it unless the cost does not depend
    on the noise multiplier (then the plan is the only one there is, and may cost less; a
    `spend` without mechanisms costs 0). An empirical budget gives `spend(1.0)`, epsilon
    infinite and no accountant.

    `spend` must cost less with more noise, without jumps; where no noise is enough, or the
    cost jumps across the target, a `UserError` says so.
    """
    if budget.is_empirical:
        mechanisms = tuple(spend(NOMINAL_SIGMA))
        return Plan(budget, mechanisms, math.inf, "none", Plan.new_ident())
    offer = _search(budget, spend)
    relation = LOCAL_RELATION if _is_local(_events(offer.mechanisms)) else RELATION
    cost = offer.cost
    return Plan(budget, offer.mechanisms, cost.epsilon, cost.accountant, Plan.new_ident(), relation)


@dataclass(frozen=True)
class _Offer:
    """What `spend` would do at one sigma, and its true price."""

    log_sigma: float
    mechanisms: tuple[Mechanism, ...]
    cost: Cost


def _offer(spend: Spend, log_sigma: float, delta: float) -> _Offer:
    mechanisms = tuple(spend(math.exp(log_sigma)))
    return _Offer(log_sigma, mechanisms, cost_of(_events(mechanisms), delta))


def _events(mechanisms: tuple[Mechanism, ...]) -> tuple[Event, ...]:
    return tuple(e for m in mechanisms for e in m.events(m.uses))


def cost_of(events: tuple[Event, ...], delta: float) -> Cost:
    """What events cost by the accountant of their relation; local and central ones together
    are refused."""
    return local_price(events, delta) if _is_local(events) else price(events, delta)


def _is_local(events: tuple[Event, ...]) -> bool:
    return bool(events) and all(isinstance(event, LocalEvent) for event in events)


def _search(budget: Budget, spend: Spend) -> _Offer:
    """Close in on the target from a rough guess, by true prices only."""
    target, least, most = budget.epsilon, math.log(_SIGMAS[0]), math.log(_SIGMAS[1])
    dear: _Offer | None = None
    cheap: _Offer | None = None
    at = _rough_log_sigma(budget, spend)
    for _ in range(_MOST_PRICES):
        offer = _offer(spend, at, budget.delta)
        used = offer.cost.epsilon / target
        if _GOOD_ENOUGH <= used <= 1:
            return offer
        if used > 1:
            dear = offer
            if at >= most:
                raise UserError(_out_of_reach(budget, offer))
        else:
            cheap = offer
            if at <= least:
                return offer
        if dear and cheap and cheap.log_sigma - dear.log_sigma < 1e-7:
            break
        at = min(max(_next_log_sigma(dear, cheap, target), least), most)
    if cheap and cheap.cost.epsilon >= _LEAST_USED * target:
        return cheap
    raise UserError(_jumps(budget, dear, cheap))


def _next_log_sigma(dear: _Offer | None, cheap: _Offer | None, target: float) -> float:
    """Where to price next: a secant inside the bracket, or a step towards the missing side.

    In logarithms epsilon is close to a straight line in sigma, falling with slope near -1
    or steeper.
    """
    if dear and cheap:
        width = cheap.log_sigma - dear.log_sigma
        high, low = _log_ratio(dear, target), _log_ratio(cheap, target)
        share = (high - math.log(_AIM)) / (high - low) if math.isfinite(high - low) else 0.5
        return dear.log_sigma + width * min(max(share, 0.05), 0.95)
    if dear:
        gap = _log_ratio(dear, target)
        return dear.log_sigma + min(1.2 * gap + 0.01, 2.0)
    assert cheap is not None
    gap = -_log_ratio(cheap, target)
    return cheap.log_sigma - min(1.2 * gap + 0.002, 0.5)


def _log_ratio(offer: _Offer, target: float) -> float:
    used = offer.cost.epsilon / target
    return math.log(used) if used > 0 else -math.inf


def _rough_log_sigma(budget: Budget, spend: Spend) -> float:
    """A first guess by the central limit (Gaussian DP), which prices nothing for real."""
    least, most = math.log(_SIGMAS[0]), math.log(_SIGMAS[1])
    for _ in range(30):
        middle = (least + most) / 2
        events = _events(tuple(spend(math.exp(middle))))
        if _rough_epsilon(events, budget.delta) > _AIM * budget.epsilon:
            least = middle
        else:
            most = middle
    if math.log(_SIGMAS[1]) - most < 1e-3:
        return math.log(_SIGMAS[1])
    return math.log(_SIGMAS[0]) if least - math.log(_SIGMAS[0]) < 1e-3 else most


def _rough_epsilon(events: tuple[Event, ...], delta: float) -> float:
    """The cost in the limit of many small releases; a guess, never a price."""
    precision = math.fsum(_rough_precision(event) for event in events)
    if not precision:
        return 0.0
    return price([Gaussian(1 / math.sqrt(precision))], delta).epsilon


def _rough_precision(event: Event) -> float:
    if isinstance(event, RandomisedResponse):
        return 0.0  # no noise of its own to calibrate; a central price refuses it
    if isinstance(event, NonPrivate) or event.sigma < _SIGMAS[0]:
        return math.inf
    exponent = min(event.sigma**-2, 500.0)
    if isinstance(event, PoissonGaussian):
        return event.count * min(event.rate**2 * math.expm1(exponent), event.sigma**-2)
    if isinstance(event, OneOfShards):
        return event.count * min(2 * event.shards**-2 * math.expm1(exponent), event.sigma**-2)
    return event.count * event.sigma**-2


def _out_of_reach(budget: Budget, offer: _Offer) -> str:
    for event in _events(offer.mechanisms):
        if isinstance(event, NonPrivate):
            return (
                f"epsilon {budget.epsilon:g} cannot be reached: the plan reveals records "
                f"({event.reason}); use an empirical budget, or a method that does not."
            )
    return (
        f"epsilon {budget.epsilon:g} cannot be reached with any noise: the fixed parts of the "
        f"plan already cost {offer.cost.epsilon:.4g}; raise epsilon or lower their cost."
    )


def _jumps(budget: Budget, dear: _Offer | None, cheap: _Offer | None) -> str:
    above = dear.cost.epsilon if dear else math.inf
    below = cheap.cost.epsilon if cheap else 0.0
    return (
        f"no noise brings the plan to epsilon {budget.epsilon:g}: its cost jumps from "
        f"{above:.4g} to {below:.4g}; spend(sigma) must change smoothly with sigma."
    )
