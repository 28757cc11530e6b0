"""Mechanisms as JSON, in plans, ledgers and evidence.

A built-in mechanism is its kind and its fields. One of another package states besides how many
uses are planned, the events that they cost and who ships it, so that a claim that rests on it can
be checked where the package is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.errors import UserError, did_you_mean
from understudy.plugins import BUILT_IN
from understudy.privacy.plan.events import Event, event_from_json, event_to_json
from understudy.privacy.plan.mechanisms.foreign import ForeignMechanism
from understudy.privacy.plan.mechanisms.mechanism import Mechanism
from understudy.privacy.plan.mechanisms.registry import (
    MechanismEntry,
    check_costs,
    entry_of,
    load_mechanism,
    mechanism_entry,
    mechanism_kinds,
)


def check_mechanism(mechanism: Mechanism) -> None:
    """Refuse what could not be planned, written and read back with the same meaning."""
    if not (isinstance(mechanism.name, str) and isinstance(mechanism.part, str)):
        raise UserError("name and part of a mechanism must be words.")
    if not all(isinstance(value, int | float | str) for value in mechanism.written().values()):
        raise UserError(f"every field of {mechanism.name!r} must be a number or a word.")
    if not isinstance(mechanism, ForeignMechanism):
        entry_of(mechanism)
    mechanism.check()
    check_costs(mechanism)


def mechanism_to_json(mechanism: Mechanism) -> dict[str, Any]:
    written, shipper = {"kind": mechanism.kind, **mechanism.written()}, shipper_of(mechanism)
    return written if shipper is None else {**written, **_stated(mechanism, shipper)}


def shipper_of(mechanism: Mechanism) -> str | None:
    """Who ships a mechanism, whether or not it is installed here; None if it is built in."""
    if isinstance(mechanism, ForeignMechanism):
        return mechanism.shipped_by
    source = entry_of(mechanism).source
    return None if source == BUILT_IN else source


def mechanism_from_json(data: Mapping[str, Any]) -> Mechanism:
    """Read a mechanism back and check its numbers.

    Guarantee: a mechanism that is installed here costs what its own fields say, and where the
    plan states events for it they must be those. One that is not installed is read only if the
    plan states its events and all of them are known here; else it is refused by name.
    """
    values = dict(data)
    kind = values.pop("kind", None)
    entry = mechanism_entry(kind)
    if entry is None:
        mechanism: Mechanism = _absent(kind, values)
    elif entry.source == BUILT_IN:
        mechanism = _made(entry, values)
    else:
        mechanism = _of_package(entry, values)
    check_mechanism(mechanism)
    return mechanism


def _made(entry: MechanismEntry, values: Mapping[str, Any]) -> Mechanism:
    try:
        return load_mechanism(entry)(**values)
    except TypeError as error:
        raise UserError(f"mechanism {entry.name!r} has wrong fields: {error}.") from error


def _of_package(entry: MechanismEntry, values: dict[str, Any]) -> Mechanism:
    """A mechanism of an installed package, whose stated events are those of its own fields."""
    uses, events, shipper = _taken(values, entry.name)
    mechanism = _made(entry, values)
    mechanism.check()
    if (uses, events, shipper) != (mechanism.uses, mechanism.events(mechanism.uses), entry.source):
        raise UserError(
            f"the plan states other uses, events or origin for {mechanism.name!r} than "
            f"{entry.name!r} of {entry.source}, which is installed here."
        )
    return mechanism


def _absent(kind: object, values: dict[str, Any]) -> ForeignMechanism:
    if not isinstance(kind, str) or "events" not in values:
        shipper, near = values.get("shipped_by"), did_you_mean(str(kind), mechanism_kinds())
        whose = f" of {shipper}, which is not installed here" if isinstance(shipper, str) else ""
        raise UserError(f"unknown mechanism {kind!r}{whose}; {near}")
    uses, events, shipper = _taken(values, kind)
    try:
        name, part = values.pop("name"), values.pop("part")
    except KeyError as error:
        raise UserError(f"mechanism {kind!r} has wrong fields: {error} is missing.") from error
    return ForeignMechanism(kind, name, part, values, uses, events, shipper)


def _stated(mechanism: Mechanism, shipper: str) -> dict[str, Any]:
    """What a plan states of a mechanism that is not built in."""
    return {
        "planned_uses": mechanism.uses,
        "events": [event_to_json(event) for event in mechanism.events(mechanism.uses)],
        "shipped_by": shipper,
    }


def _taken(values: dict[str, Any], kind: str) -> tuple[int, tuple[Event, ...], str]:
    """Take out of a mechanism's JSON what `_stated` added."""
    uses, events, shipper = (values.pop(n, None) for n in ("planned_uses", "events", "shipped_by"))
    if not (isinstance(shipper, str) and isinstance(events, list) and type(uses) is int):
        raise UserError(
            f"mechanism {kind!r} is not built in, so its plan must state planned_uses, events and "
            "shipped_by."
        )
    try:
        return uses, tuple(event_from_json(event) for event in events), shipper
    except UserError as error:
        raise UserError(
            f"mechanism {kind!r} of {shipper} cannot be priced: {error} Use the version of "
            "Understudy that wrote the plan."
        ) from error
