"""From a ledger to a claim: kind, figures and spending are computed, never entered."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from understudy.data.records import Records
from understudy.errors import PrivacyError, UserError
from understudy.privacy.accounting.accountants import local_price, price
from understudy.privacy.ledger.entries import Entry
from understudy.privacy.ledger.released import is_released_form, released_ledger
from understudy.privacy.ledger.story import ledger_plan, spent_events, spent_uses
from understudy.privacy.plan.events import Event, LocalEvent, NonPrivate
from understudy.privacy.plan.mechanisms.json_form import shipper_of
from understudy.privacy.plan.plan import LOCAL_RELATION, Plan
from understudy.release.claim import (
    FORMAT,
    FORMAT_0_1,
    Claim,
    LedgerMark,
    RecordsSummary,
    Spending,
    Tuning,
)
from understudy.release.facts import RunFacts

_NO_BOUND = "none: the plan states no bound"
VERSIONED = (
    "python",
    "understudy",
    "torch",
    "numpy",
    "dp-accounting",
    "pyarrow",
    "pillow",
)


@dataclass(frozen=True)
class Price:
    """What some events cost, and of which kind a claim about them is."""

    kind: str
    epsilon: float
    accountant: str


def price_events(events: Sequence[Event], delta: float) -> Price:
    """Kind and cost of events.

    Guarantee: one non-private event makes the whole empirical, epsilon infinite, and so
    does noise too small to bound anything. Local events are priced apart, replace-one,
    and refused beside central ones.
    """
    bare = [e for e in events if isinstance(e, NonPrivate)]
    local = [e for e in events if isinstance(e, LocalEvent)]
    if local and len(local) < len(events) and not bare:
        raise PrivacyError("local and central events cannot be composed into one claim.")
    cost = local_price(local, delta) if local and not bare else price(bare or events, delta)
    kind = "local" if local else "central"
    if math.isinf(cost.epsilon):
        kind = "empirical"
    return Price(kind, cost.epsilon, cost.accountant)


@dataclass(frozen=True)
class Reckoning:
    """What a ledger comes to: the larger of what was planned and what was spent."""

    plan: Plan
    price: Price
    planned: Price
    spending: tuple[Spending, ...]

    @property
    def relation(self) -> str:
        return LOCAL_RELATION if self.price.kind == "local" else self.plan.relation


def reckon(entries: Sequence[Entry]) -> Reckoning:
    """Price a ledger from its events alone; the figures written in it are not believed."""
    plan = ledger_plan(entries)
    priced = _remembering_prices(plan.delta)
    planned = priced(plan.events())
    spent = priced(spent_events(entries))
    uses = spent_uses(entries)
    spending = tuple(
        Spending(
            name=m.name,
            kind=m.kind,
            planned=m.uses,
            spent=uses.get(m.name, 0),
            sigma=m.noise_multiplier,
            epsilon_alone=priced(m.events(m.uses)).epsilon,
            shipped_by=shipper_of(m),
        )
        for m in plan.mechanisms
    )
    return Reckoning(plan, max(planned, spent, key=lambda p: p.epsilon), planned, spending)


def build_claim(
    plan: Plan,
    facts: RunFacts,
    *,
    tuning: Tuning,
    records: RecordsSummary,
    versions: Mapping[str, str],
) -> Claim:
    """The claim that a finished run supports, and the ledger that is released with it.

    Guarantee: a function of the plan, of declared facts, and of what is given here; the owner's
    ledger, which may tell where records made work stop, has no way in.
    """
    entries = released_ledger(plan, facts.to_json())
    return claim_of(reckon(entries), entries, tuning, records, versions)


def claim_of(
    reckoning: Reckoning,
    entries: Sequence[Entry],
    tuning: Tuning,
    records: RecordsSummary,
    versions: Mapping[str, str],
) -> Claim:
    """The claim that a reckoned ledger supports.

    Guarantee: the claimed epsilon is the largest of what the plan states, what its events
    cost, and what the spent events cost; where none is finite, the claim is empirical.
    """
    facts = run_facts(entries)
    found, plan = reckoning.price, reckoning.plan
    epsilon = max(found.epsilon, plan.epsilon)
    unstated = math.isinf(epsilon) and math.isfinite(found.epsilon)
    return Claim(
        kind="empirical" if unstated else found.kind,
        epsilon=epsilon,
        delta=plan.delta,
        accountant=_NO_BOUND if unstated else found.accountant,
        # Local noise is drawn for each record: a person's several records are not one unit.
        unit=None if found.kind == "local" else facts.unit,
        relation=reckoning.relation,
        tuning=tuning,
        split=facts.split,
        method=facts.method,
        ledger=LedgerMark(entries[-1].hash, len(entries)),
        spending=reckoning.spending,
        records=records,
        assumed_public=_assumed_public(facts),
        randomness=facts.randomness,
        public_inputs=facts.public_inputs,
        parts=facts.parts if len(facts.parts) > 1 else {},
        versions=dict(versions),
        format=FORMAT if is_released_form(entries) else FORMAT_0_1,
    )


def run_facts(entries: Sequence[Entry]) -> RunFacts:
    """The public facts that the ledger's plan entry states."""
    if not entries or "run" not in entries[0].body:
        raise UserError("ledger.jsonl: the plan entry does not state the facts of its run.")
    return RunFacts.from_json(entries[0].body["run"])


def summarise(records: Records) -> RecordsSummary:
    return RecordsSummary(len(records), records.shape, records.schema, records.soft)


def current_versions() -> dict[str, str]:
    """Versions of what computes, fits and writes a release here; absent packages are left out."""
    found = {"python": platform.python_version()}
    for name in VERSIONED[1:]:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _assumed_public(facts: RunFacts) -> tuple[str, ...]:
    """What every plan rests on, then what this run adds."""
    units = "images" if facts.unit is None else f"values of {facts.unit!r}"
    always = (
        f"the declared number of private {units} ({facts.count})",
        "the names of attributes and classes",
        "the size of an image",
    )
    return (*always, *(a for a in facts.assumed_public if a not in always))


def _remembering_prices(delta: float) -> Callable[[tuple[Event, ...]], Price]:
    """`price_events` that pays once for events it has seen: plan, ledger and rows overlap."""
    known: dict[tuple[Event, ...], Price] = {}

    def priced(events: tuple[Event, ...]) -> Price:
        if events not in known:
            known[events] = price_events(events, delta)
        return known[events]

    return priced
