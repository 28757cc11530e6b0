"""Tables of Markdown for pages that are made from evidence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Maker = Callable[[dict[str, Any]], list[str]]
"""From the result of a measurement to paragraphs and tables."""


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; fractions with three digits, everything else as it prints."""
    return "\n".join([_line(header), _line(["---"] * len(header)), *map(_line, rows)])


def below(page: Path, heading: str, text: str) -> None:
    """Put `text`, which begins with the heading, in place of it and all that follows it."""
    before = page.read_text(encoding="utf-8").partition(heading)[0]
    page.write_text(before + text, encoding="utf-8")


def blocks_of(folder: Path, makers: Mapping[str, Maker]) -> list[str]:
    """What each maker says of the measurement of its name; one that is not there is named."""
    blocks: list[str] = []
    for name, maker in makers.items():
        path, script = folder / f"{name}.json", name.replace("-", "_")
        missing = f"`{name}` is still to be measured (`benchmarks/{script}.py`)."
        blocks += maker(measured(path)) if path.exists() else [missing]
    return blocks


def measured(path: Path) -> dict[str, Any]:
    """The result of a measurement."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["result"]
    return found


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(f'{c:.3f}' if isinstance(c, float) else str(c) for c in cells)} |"
