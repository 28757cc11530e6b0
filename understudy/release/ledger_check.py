"""Whether a ledger whose chain holds also tells a story that can have happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from understudy.errors import UserError
from understudy.privacy.ledger.entries import Entry
from understudy.privacy.ledger.story import ledger_plan
from understudy.privacy.plan.plan import Plan

_KINDS = ("plan", "reserve", "commit", "void", "close")


def ledger_problems(entries: Sequence[Entry]) -> list[str]:
    """What is wrong with the order and the amounts of a ledger's entries.

    Guarantee: an empty list means that the plan comes first and once, that every commit
    and void answers an open reservation of the same mechanism, that no mechanism is
    used beyond its plan (open reservations count as used, voids do not), and that the
    ledger was closed and nothing followed.
    """
    if not entries or entries[0].kind != "plan":
        return ["ledger.jsonl does not begin with a plan."]
    try:
        plan = ledger_plan(entries)
    except (UserError, KeyError, TypeError, AttributeError, ValueError) as error:
        return [f"ledger.jsonl line 1: the plan cannot be read: {error}"]
    reading = _Reading(plan)
    for number, entry in enumerate(entries[1:], start=2):
        problem = reading.take(entry)
        if problem:
            reading.problems.append(f"ledger.jsonl line {number}: {problem}.")
    if not reading.closed:
        reading.problems.append("ledger.jsonl is not closed: the run is not finished.")
    return reading.problems


@dataclass
class _Reading:
    """What is known after the entries read so far."""

    plan: Plan
    open: dict[int, tuple[str, int]] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    used: dict[str, int] = field(default_factory=dict)
    closed: bool = False
    problems: list[str] = field(default_factory=list)

    def take(self, entry: Entry) -> str | None:
        if self.closed:
            return f"a {entry.kind} follows the close"
        if entry.kind not in _KINDS:
            return f"unknown kind {entry.kind!r}"
        if entry.kind == "plan":
            return "a second plan; a plan is single-use and comes first"
        if entry.kind == "close":
            self.closed = True
            return None
        block = entry.body.get("block")
        if not _is_count(block):
            return "it does not name its block by a number"
        if entry.kind == "void":
            return self._void(block)
        return self._use(entry, block)

    def _use(self, entry: Entry, block: int) -> str | None:
        name, uses = entry.body.get("mechanism"), entry.body.get("uses")
        if name not in {m.name for m in self.plan.mechanisms}:
            return f"the plan has no mechanism {name!r}"
        if not _is_count(uses):
            return f"uses must be a whole number, not {uses!r}"
        take = self._reserve if entry.kind == "reserve" else self._commit
        return take(block, name, uses)

    def _reserve(self, block: int, name: str, uses: int) -> str | None:
        if block in self.open or block in self.committed:
            return f"block {block} is reserved a second time"
        self.open[block] = (name, uses)
        return self._count(name, uses)

    def _commit(self, block: int, name: str, uses: int) -> str | None:
        reserved = self.open.pop(block, None)
        if reserved is None:
            return f"block {block} is committed without having been reserved"
        self.committed.add(block)
        if reserved[0] != name:
            return f"block {block} was reserved for {reserved[0]!r} and committed for {name!r}"
        if uses > reserved[1]:
            return f"block {block} commits {uses} uses of {reserved[1]} reserved"
        self.used[name] -= reserved[1] - uses
        return None

    def _void(self, block: int) -> str | None:
        reserved = self.open.pop(block, None)
        if reserved is None:
            return f"block {block} is voided without being open"
        self.used[reserved[0]] -= reserved[1]
        return None

    def _count(self, name: str, uses: int) -> str | None:
        self.used[name] = self.used.get(name, 0) + uses
        planned = self.plan.mechanism(name).uses
        if self.used[name] > planned:
            return f"{name!r} is used {self.used[name]} times, beyond the {planned} planned"
        return None


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
