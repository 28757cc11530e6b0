"""What the runs of an account book cost together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.privacy.accounting.accountants import Cost, local_price, price
from understudy.privacy.plan.events import Event, LocalEvent
from understudy.privacy.plan.plan import RELATION, Plan

_UNBOUNDED = Cost(math.inf, "none: an empirical run is among them")


@dataclass(frozen=True)
class BookRun:
    """One run as the book knows it.

    released: the digests of its releases. evaluated: the protocols by which its owner looked at
        figures of it on real records.
    """

    run_id: str
    plan: Plan
    purpose: str
    facts: Mapping[str, Any]
    entered: str
    released: tuple[str, ...] = ()
    evaluated: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        events = self.plan.events()
        return self.plan.relation != RELATION or any(isinstance(e, LocalEvent) for e in events)

    @property
    def is_empirical(self) -> bool:
        return math.isinf(self.plan.epsilon)


@dataclass(frozen=True)
class Totals:
    """What a dataset's runs cost together at `delta`: the released ones, and all of them.

    Local runs are priced apart, one by one in `local` and together in the other two, for a
    record that left in each of them: a local price never composes with another relation's. An
    empirical run, such as filtered records that were sent, makes these infinite like the others.
    """

    delta: float
    released: Cost
    all_runs: Cost
    runs: tuple[BookRun, ...]
    local: tuple[tuple[BookRun, Cost], ...]
    local_released: Cost
    local_all_runs: Cost


def total_of(runs: tuple[BookRun, ...], delta: float) -> Totals:
    """The totals of these runs; see `Book.total` for what they guarantee."""
    central = [run for run in runs if not run.is_local]
    local = [run for run in runs if run.is_local]
    return Totals(
        delta=delta,
        released=_compose([run for run in central if run.released], delta),
        all_runs=_compose(central, delta),
        runs=runs,
        local=tuple((r, _compose_local([r], delta)) for r in local),
        local_released=_local_total([run for run in runs if run.released], delta),
        local_all_runs=_local_total(runs, delta),
    )


def _compose(runs: Sequence[BookRun], delta: float) -> Cost:
    if any(run.is_empirical for run in runs):
        return _UNBOUNDED
    events: list[Event] = [event for run in runs for event in run.plan.events()]
    return price(events, delta)


def _compose_local(runs: Sequence[BookRun], delta: float) -> Cost:
    """Of one record that left in every one of these runs: sending twice spends twice."""
    return local_price([event for run in runs for event in run.plan.events()], delta)


def _local_total(runs: Sequence[BookRun], delta: float) -> Cost:
    """Of the local ones among these; an empirical run tells of the same records without bound."""
    if any(run.is_empirical for run in runs):
        return _UNBOUNDED
    return _compose_local([run for run in runs if run.is_local], delta)
