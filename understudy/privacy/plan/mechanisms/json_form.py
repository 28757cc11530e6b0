"""Mechanisms as JSON, in plans, ledgers and evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from understudy.errors import UserError
from understudy.privacy.plan.mechanisms.mechanism import ADDED_LATER, Mechanism
from understudy.privacy.plan.mechanisms.registry import mechanism_class, mechanism_kinds


def mechanism_to_json(mechanism: Mechanism) -> dict[str, Any]:
    return {"kind": mechanism.kind, **field_values(mechanism)}


def mechanism_from_json(data: Mapping[str, Any]) -> Mechanism:
    """Read a mechanism back and check its numbers; unknown kinds are refused by name."""
    values = dict(data)
    kind = values.pop("kind", None)
    if kind not in mechanism_kinds():
        known = ", ".join(mechanism_kinds())
        raise UserError(f"unknown mechanism {kind!r}; this version knows {known}.")
    try:
        mechanism = mechanism_class(kind)(**values)
    except TypeError as error:
        raise UserError(f"mechanism {kind!r} has wrong fields: {error}.") from error
    mechanism.check()
    return mechanism


def field_values(mechanism: Mechanism) -> dict[str, Any]:
    """A mechanism's own fields, in their order.

    One that came after version 0.1 (`added_later`) is left out at its default, so that a
    mechanism that could be planned then is written as it was.
    """
    own = fields(mechanism)  # type: ignore[arg-type]
    return {
        field.name: getattr(mechanism, field.name)
        for field in own
        if not (ADDED_LATER in field.metadata and getattr(mechanism, field.name) == field.default)
    }
