"""Epsilon from an evidence file alone: its mechanisms are priced anew, and its claim compared."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from understudy.errors import PrivacyError, UserError
from understudy.privacy.plan.events import Event
from understudy.privacy.plan.mechanisms import mechanism_from_json
from understudy.privacy.plan.plan import LOCAL_RELATION, RELATION
from understudy.release.build import Price, price_events
from understudy.release.claim_check import accountant_method, close


def lacks_mechanisms(evidence: Mapping[str, Any]) -> bool:
    """Whether this evidence makes a claim that cannot be recomputed, as in format 2."""
    claim = evidence.get("claim")
    return claim is not None and "mechanisms" not in claim


def recomputed(claim: Mapping[str, Any]) -> Price:
    """What the mechanisms of a claim cost together at its delta.

    Guarantee: an upper bound on the epsilon of all their planned uses, composed, by the accountant
    that this version picks. Of the claim nothing but `mechanisms` and `delta` is read, so the
    epsilon that it states has no part in it.
    """
    mechanisms = [mechanism_from_json(written) for written in claim["mechanisms"]]
    return _priced(tuple(e for m in mechanisms for e in m.events(m.uses)), claim["delta"])


def claim_problem(evidence: Mapping[str, Any]) -> str | None:
    """What a run's claim says and its mechanisms do not bear out, as one sentence, or None.

    An empirical claim says nothing that could be too little, and nothing can be said of one
    that `lacks_mechanisms`.
    """
    claim = evidence.get("claim")
    if claim is None or lacks_mechanisms(evidence) or claim["kind"] == "empirical":
        return None
    try:
        found = recomputed(claim)
    except (UserError, PrivacyError) as error:
        return f"the mechanisms of its claim have no price: {error}"
    relation = LOCAL_RELATION if found.kind == "local" else RELATION
    if not close(claim["epsilon"], found.epsilon):
        return (
            f"its claim says epsilon {claim['epsilon']:.6g}, "
            f"but its mechanisms cost {found.epsilon:.6g}."
        )
    if (claim["kind"], claim["relation"]) != (found.kind, relation):
        return (
            f"its claim is {claim['kind']} ({claim['relation']}), "
            f"but its mechanisms make it {found.kind} ({relation})."
        )
    if accountant_method(claim["accountant"]) != accountant_method(found.accountant):
        return (
            f"its claim names the accountant {claim['accountant']!r}, "
            f"but its mechanisms are priced by {found.accountant!r}."
        )
    return None


@lru_cache(maxsize=4096)
def _priced(events: tuple[Event, ...], delta: float) -> Price:
    """Runs that differ in their seed have one plan, and it is priced once."""
    return price_events(events, delta)
