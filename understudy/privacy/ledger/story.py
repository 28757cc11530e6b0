"""What a ledger tells: a plan, blocks of work in an order that can have happened, their uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from understudy.errors import UserError
from understudy.privacy.ledger.entries import Entry
from understudy.privacy.ledger.released import check_released, is_released_form
from understudy.privacy.plan.events import Event
from understudy.privacy.plan.plan import Plan

_PLAN_ENTRY = frozenset({"plan", "run", "format"})
_BODIES = {
    "reserve": {"block", "mechanism", "uses"},
    "commit": {"block", "mechanism", "uses"},
    "void": {"block"},
    "close": set[str](),
    "fail": set[str](),
}
"""All that an entry may say after the plan: no times, nothing measured."""


def check_story(entries: Sequence[Entry]) -> None:
    """Refuse a ledger whose entries cannot have happened in this order.

    One plan, first; blocks numbered from 0, each reserved, then committed or voided
    before the next; uses never beyond the plan; nothing after `close` or `fail`. A released
    ledger is nothing but `released_ledger` of its plan.
    """
    if not entries or entries[0].kind != "plan":
        raise UserError("the ledger does not begin with a plan.")
    _check_fields_of_plan_entry(entries[0].body)
    plan = ledger_plan(entries)
    if is_released_form(entries):
        check_released(entries, plan)
        return
    story = _Story(plan)
    for entry in entries[1:]:
        story.take(entry)


def _check_fields_of_plan_entry(body: Any) -> None:
    """A field that is not known here may change what the others mean, so it is not skipped."""
    unknown = sorted(set(body) - _PLAN_ENTRY) if isinstance(body, Mapping) else []
    if unknown:
        raise UserError(
            f"ledger line 1: this version does not know the field {unknown[0]!r} of a plan entry; "
            "use the version that wrote it."
        )


class _Story:
    """What a ledger has told so far; `take` refuses an entry that cannot come next."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._spent = {m.name: 0 for m in plan.mechanisms}
        self._open: Mapping[str, Any] | None = None
        self._blocks = 0
        self._closed = False

    def take(self, entry: Entry) -> None:
        place = f"ledger line {entry.index + 1}"
        if self._closed:
            raise UserError(f"{place}: comes after the ledger was closed.")
        if not isinstance(entry.kind, str) or entry.kind not in _BODIES:
            raise UserError(f"{place}: a {entry.kind!r} entry cannot stand here.")
        if set(entry.body) != _BODIES[entry.kind]:
            raise UserError(f"{place}: a {entry.kind} says more or less than it may.")
        takers = {
            "reserve": self._reserve,
            "commit": self._commit,
            "void": self._void,
            "close": self._close,
            "fail": self._fail,
        }
        takers[entry.kind](entry.body, place)

    def _reserve(self, body: Mapping[str, Any], place: str) -> None:
        block, name, uses = body["block"], body["mechanism"], body["uses"]
        if self._open is not None or type(block) is not int or block != self._blocks:
            raise UserError(f"{place}: block {block!r} is out of order.")
        if not isinstance(name, str) or name not in self._spent:
            raise UserError(f"{place}: the plan has no mechanism {name!r}.")
        if not _is_count(uses) or self._spent[name] + uses > self._plan.mechanism(name).uses:
            raise UserError(f"{place}: {name} would be used beyond its plan.")
        self._open, self._blocks = body, self._blocks + 1

    def _commit(self, body: Mapping[str, Any], place: str) -> None:
        reserved = self._settle(body, place)
        if body["mechanism"] != reserved["mechanism"]:
            raise UserError(f"{place}: commits another mechanism than was reserved.")
        if not _is_count(body["uses"]) or body["uses"] > reserved["uses"]:
            raise UserError(f"{place}: commits more uses than were reserved.")
        self._spent[body["mechanism"]] += body["uses"]

    def _void(self, body: Mapping[str, Any], place: str) -> None:
        self._settle(body, place)

    def _settle(self, body: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        reserved = self._open
        block = body["block"]
        if reserved is None or type(block) is not int or block != reserved["block"]:
            raise UserError(f"{place}: settles a block that is not open.")
        self._open = None
        return reserved

    def _fail(self, body: Mapping[str, Any], place: str) -> None:
        del body, place
        self._closed = True

    def _close(self, body: Mapping[str, Any], place: str) -> None:
        del body
        if self._open is not None:
            raise UserError(f"{place}: closed while a block was open.")
        self._closed = True


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def ledger_plan(entries: Sequence[Entry]) -> Plan:
    try:
        return Plan.from_json(entries[0].body["plan"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError("the ledger's plan cannot be read.") from error


def spent_uses(entries: Sequence[Entry]) -> dict[str, int]:
    """Uses per mechanism: committed ones, and a reserved block that was never settled."""
    spent: dict[str, int] = {}
    pending: Mapping[str, Any] | None = None
    for entry in entries:
        if entry.kind == "reserve":
            pending = entry.body
        elif entry.kind == "void":
            pending = None
        elif entry.kind == "commit":
            spent[entry.body["mechanism"]] = (
                spent.get(entry.body["mechanism"], 0) + entry.body["uses"]
            )
            pending = None
    if pending is not None:
        spent[pending["mechanism"]] = spent.get(pending["mechanism"], 0) + pending["uses"]
    return spent


def spent_events(entries: Sequence[Entry]) -> tuple[Event, ...]:
    """The events that happened: what a ledger costs."""
    plan = ledger_plan(entries)
    uses = spent_uses(entries)
    return tuple(e for m in plan.mechanisms for e in m.events(uses.get(m.name, 0)))
