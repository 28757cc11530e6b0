"""A claim against the ledger it rests on: recomputed, then compared field by field."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields

from understudy.privacy.ledger.entries import Entry
from understudy.privacy.plan.exact_or_float import noise_of
from understudy.privacy.plan.plan import RELATION
from understudy.release.build import Price, Reckoning, claim_of
from understudy.release.claim import Claim, LedgerMark, Spending
from understudy.release.facts import MethodFacts, Randomness

RELATIVE_TOLERANCE = 1e-6
"""Costs recomputed on another machine differ in their last figures; no more is allowed."""

_COMPARED_APART = ("epsilon", "accountant", "spending")


def claim_problems(claim: Claim, entries: Sequence[Entry], reckoning: Reckoning) -> list[str]:
    """Where a claim says something else than its ledger, reckoned anew, supports."""
    expected = claim_of(reckoning, entries, claim.tuning, claim.records, claim.versions)
    stated, priced = reckoning.plan.epsilon, reckoning.planned.epsilon
    problems = []
    if expected.kind == "central" and reckoning.plan.relation != RELATION:
        problems.append(
            f"the plan's relation is {reckoning.plan.relation!r}, but its events are priced "
            f"under {RELATION!r}."
        )
    if not close(stated, priced):
        problems.append(f"the plan states epsilon {stated:.6g}, but its events cost {priced:.6g}.")
    if not close(claim.epsilon, expected.epsilon):
        problems.append(
            f"the claim says epsilon {claim.epsilon:.6g}, "
            f"but the ledger's events cost {expected.epsilon:.6g}."
        )
    if accountant_method(claim.accountant) != accountant_method(expected.accountant):
        problems.append(
            f"the claim names the accountant {claim.accountant!r}, "
            f"but it is {expected.accountant!r}."
        )
    planned_noise = noise_of(reckoning.plan.mechanisms)
    if expected.randomness.noise != planned_noise:
        problems.append(
            f"the run states {expected.randomness.noise} noise, but its plan has {planned_noise}."
        )
    problems += _spending_problems(claim.spending, expected.spending)
    for name in (f.name for f in fields(Claim) if f.name not in _COMPARED_APART):
        said, found = getattr(claim, name), getattr(expected, name)
        if said != found:
            problems.append(
                f"the claim's {name} is {_shown(said)}, but the ledger gives {_shown(found)}."
            )
    return problems


def version_notes(claim: Claim, recomputed: Price) -> list[str]:
    """Say when another version of the accountant was used than the one here."""
    if claim.accountant == recomputed.accountant:
        return []
    return [f"computed with {claim.accountant}, checked with {recomputed.accountant}."]


def close(one: float, other: float) -> bool:
    if math.isinf(one) or math.isinf(other):
        return one == other
    return abs(one - other) <= RELATIVE_TOLERANCE * max(abs(one), abs(other))


def accountant_method(accountant: str) -> str:
    """An accountant's name without package and version, which may differ between machines."""
    return accountant.partition(", ")[0]


def _shown(value: object) -> str:
    """As it stands in the files, for a reader who does not know our classes."""
    if isinstance(value, LedgerMark | MethodFacts | Randomness):
        return json.dumps(value.to_json(), sort_keys=True)
    return repr(value)


def _spending_problems(said: Sequence[Spending], found: Sequence[Spending]) -> list[str]:
    if len(said) != len(found):
        return [f"the claim lists {len(said)} uses of private records, the plan {len(found)}."]
    return [
        f"the claim's spending on {one.name!r} is not what the ledger gives for {other.name!r}."
        for one, other in zip(said, found, strict=True)
        if _facts(one) != _facts(other) or not close(one.epsilon_alone, other.epsilon_alone)
    ]


def _facts(row: Spending) -> tuple[object, ...]:
    return (row.name, row.kind, row.planned, row.spent, row.sigma, row.shipped_by)
