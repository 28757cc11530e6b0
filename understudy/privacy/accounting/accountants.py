"""What events cost: from a list of events to one epsilon at a given delta.

Central events compose by privacy loss distributions (PLD), rounded against us, under
adding or removing one unit. One-of-shards and discrete Gaussian events have no PLD form
here; a list that holds one is charged by adding Renyi (RDP) curves order by order and
converting once.
The prices are upper bounds: rounding, truncation and discretisation all go up.

`dp_accounting` is imported inside the functions of this folder, so that importing it is cheap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version

from understudy.errors import PrivacyError, UserError
from understudy.privacy.accounting.privacy_loss import gaussian_epsilon, pld_epsilon
from understudy.privacy.accounting.renyi import rdp_epsilon
from understudy.privacy.accounting.tally import LOCAL, tally_of
from understudy.privacy.plan.events import Event


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

    >>> from understudy.privacy.plan.events import Gaussian
    >>> round(price([Gaussian(sigma=5.0)], delta=1e-5).epsilon, 4)
    0.7255
    """
    _check_delta(delta)
    tally = tally_of(events)
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
            gaussian_epsilon(tally.precision, delta), _name("PLD in closed form (Gaussian)")
        )
    if not (tally.shards or tally.discrete):
        epsilon = pld_epsilon(tally, delta)
        if math.isfinite(epsilon):
            return Cost(epsilon, _name("PLD"))
    return Cost(rdp_epsilon(tally, delta), _name("RDP"))


def alone(event: Event, delta: float) -> Cost:
    """What one event would cost by itself; such prices do not add up to the composed one."""
    return local_price([event], delta) if isinstance(event, LOCAL) else price([event], delta)


def local_price(events: Iterable[Event], delta: float) -> Cost:
    """The epsilon of local releases of one record, composed.

    Guarantee: every record leaves with Gaussian noise of `sigma` times the L2 sensitivity
    under *replacing* it; the price is per record, replace-one, by the closed form of the
    Gaussian mechanism. Randomised responses (delta 0) add their epsilons to it. Central
    events are refused: the two relations do not compose.
    """
    _check_delta(delta)
    tally = tally_of(events)
    if not tally.is_empty:
        raise PrivacyError("a central event has no place in a local price; use price.")
    if tally.non_private:
        return Cost(math.inf, "none: records leave without protection")
    if not (tally.local or tally.responses):
        return Cost(0.0, "none: nothing is spent")
    noise = gaussian_epsilon(tally.local, delta) if tally.local else 0.0
    return Cost(noise + tally.responses, _name("closed form of the Gaussian mechanism"))


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise UserError(f"delta must lie between 0 and 1 (1e-5, say), not {delta!r}.")


def _name(method: str) -> str:
    return f"{method}, dp_accounting {version('dp-accounting')}"
