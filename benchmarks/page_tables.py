"""Tables of Markdown for pages that are made from evidence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; fractions with three digits, everything else as it prints."""
    return "\n".join([_line(header), _line(["---"] * len(header)), *map(_line, rows)])


def measured(path: Path) -> dict[str, Any]:
    """The result of a measurement."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["result"]
    return found


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(f'{c:.3f}' if isinstance(c, float) else str(c) for c in cells)} |"
