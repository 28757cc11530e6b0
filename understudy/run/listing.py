"""A small table for people, which is also JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any


@dataclass(frozen=True)
class Listing:
    """Rows under headings, with lines before and after."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def text(self) -> str:
        return "\n".join([*self.before, *aligned(self.headings, self.rows), *self.after])

    def __repr__(self) -> str:
        return f"Listing({len(self.rows)} rows of {', '.join(self.headings)})"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text())}</pre>"

    def to_json(self) -> dict[str, Any]:
        rows = [dict(zip(self.headings, row, strict=True)) for row in self.rows]
        return {"rows": rows, "notes": [*self.before, *self.after]}


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell."""
    table = [list(headings), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in table) for i in range(len(headings))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def duration(seconds: float) -> str:
    """A rough time in the unit that people would use.

    >>> duration(0.2), duration(75), duration(7300)
    ('1 s', '75 s', '2 hours')
    """
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1, round(seconds))} s"
