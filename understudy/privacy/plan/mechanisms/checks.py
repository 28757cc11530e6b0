"""Checks of a mechanism's numbers, in words that name the mechanism and the field."""

from __future__ import annotations

import math

from understudy.errors import UserError
from understudy.privacy.plan.mechanisms.mechanism import Mechanism

MOST_USES = 10**12
"""More of anything is a mistake, or a ledger made to keep whoever verifies it busy."""


def check_positive(mechanism: Mechanism, *names: str) -> None:
    """Refuse a field that is no finite number above 0."""
    for name in names:
        value = getattr(mechanism, name)
        if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
            raise UserError(
                f"{name} of {mechanism.name!r} must be a positive number, not {value!r}."
            )


def check_rates(mechanism: Mechanism, *names: str) -> None:
    """Refuse a field that is no probability above 0."""
    check_positive(mechanism, *names)
    for name in names:
        if getattr(mechanism, name) > 1.0:
            raise UserError(f"{name} of {mechanism.name!r} must be at most 1.")


def check_counts(mechanism: Mechanism, *names: str) -> None:
    """Refuse a field that is no whole number above 0, or that is absurdly large."""
    for name in names:
        value = getattr(mechanism, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UserError(
                f"{name} of {mechanism.name!r} must be a whole number above 0, not {value!r}."
            )
        if value > MOST_USES:
            raise UserError(f"{name} of {mechanism.name!r} must be at most {MOST_USES:.0e}.")
