"""The ledger that is released: what was planned, all of which is charged, and nothing else.

The owner's ledger is itself an output: which blocks were void, cut short or failed may depend on a
private record. So it stays with the owner, and this one goes out in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from understudy.errors import UserError
from understudy.privacy.ledger.entries import Entry, next_entry
from understudy.privacy.plan.plan import Plan

FORMAT = "understudy-ledger/2"
"""Version 0.1 released the owner's ledger itself, whose plan entry names no format."""


def released_ledger(plan: Plan, run: Mapping[str, Any]) -> tuple[Entry, ...]:
    """The ledger of a finished run as it may be published.

    Guarantee: a function of the plan and of declared facts (`run`) alone. It holds the plan, of
    each mechanism one reserve and one commit of all its planned uses, which is what is charged, and
    a close; no hash or length of the owner's ledger. So it tells nothing of private records, and a
    price computed from it is never below what was spent.
    """
    told: list[tuple[str, Mapping[str, Any]]] = [
        ("plan", {"format": FORMAT, "plan": plan.to_json(), "run": dict(run)})
    ]
    for block, mechanism in enumerate(plan.mechanisms):
        uses = {"block": block, "mechanism": mechanism.name, "uses": mechanism.uses}
        told += [("reserve", uses), ("commit", uses)]
    entries: list[Entry] = []
    for kind, body in [*told, ("close", {})]:
        entries.append(next_entry(entries, kind, body))
    return tuple(entries)


def is_released_form(entries: Sequence[Entry]) -> bool:
    """Whether a ledger says that it is one of this format, and not an owner's."""
    return bool(entries) and "format" in entries[0].body


def check_released(entries: Sequence[Entry], plan: Plan) -> None:
    """Refuse a ledger of this format that is not `released_ledger` of its own plan, to the byte."""
    found, run = entries[0].body["format"], entries[0].body.get("run")
    if found != FORMAT:
        raise UserError(f"the ledger has format {found!r}; this version reads {FORMAT!r}.")
    if not isinstance(run, Mapping):
        raise UserError("ledger line 1: the plan entry does not state the facts of its run.")
    due = released_ledger(plan, run)
    for number, (entry, expected) in enumerate(zip_longest(entries, due), start=1):
        if entry != expected:
            raise UserError(
                f"ledger line {number}: a released ledger holds its plan, one reserve and one "
                "commit of all planned uses of each mechanism, and a close, and nothing else."
            )
