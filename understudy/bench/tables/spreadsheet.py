"""Cells that a spreadsheet takes for what they are."""

from __future__ import annotations

from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_cell(value: Any) -> Any:
    """A value for a spreadsheet, which must not take a name for a formula.

    >>> csv_cell("=1+1"), csv_cell(-0.5), csv_cell(None)
    ("'=1+1", -0.5, '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return value
    words = str(value)
    return f"'{words}" if words.startswith(_FORMULA) else words
