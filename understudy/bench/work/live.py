"""What a person sees while a suite runs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_COLOURS = {"done": "green", "failed": "red", "running": "cyan", "away": "magenta"}
_MOST_ROWS = 40


@dataclass(frozen=True)
class RowView:
    """One cell as people see it."""

    title: str
    state: str
    phase: str = ""
    note: str = ""
    seconds: float = 0.0
    reason: str = ""

    @property
    def doing(self) -> str:
        """What a running cell does, why a failed one failed."""
        if self.state == "running":
            return f"{self.phase}: {self.note}" if self.note else self.phase
        return self.reason


class Show(Protocol):
    """Told of every change, and often of everything."""

    def changed(self, row: RowView) -> None: ...

    def refresh(self, rows: Sequence[RowView]) -> None: ...

    def close(self, rows: Sequence[RowView]) -> None: ...


class Nothing:
    """Shows nothing."""

    def changed(self, row: RowView) -> None:
        del row

    def refresh(self, rows: Sequence[RowView]) -> None:
        del rows

    def close(self, rows: Sequence[RowView]) -> None:
        del rows


class Lines(Nothing):
    """One line for each change, on standard error."""

    def changed(self, row: RowView) -> None:
        print(f"{row.state:<9} {row.title}{_tail(row)}", file=sys.stderr, flush=True)


class LiveTable(Nothing):
    """A table that is drawn again while work goes on, and stays as it was at the end."""

    def __init__(self) -> None:
        self._live: Live | None = None

    def refresh(self, rows: Sequence[RowView]) -> None:
        from rich.console import Console
        from rich.live import Live

        if self._live is None:
            self._live = Live(console=Console(stderr=True), auto_refresh=False)
            self._live.start()
        self._live.update(table_of(rows), refresh=True)

    def close(self, rows: Sequence[RowView]) -> None:
        if self._live is not None:
            self._live.update(table_of(rows), refresh=True)
            self._live.stop()
            self._live = None


def table_of(rows: Sequence[RowView]) -> Table:
    """Running and failed cells first where not all fit; the caption counts them all."""
    from rich.table import Table
    from rich.text import Text

    counts = Counter(row.state for row in rows)
    table = Table(caption=", ".join(f"{n} {state}" for state, n in counts.items()))
    for name in ("cell", "state", "doing", "time"):
        table.add_column(name, justify="right" if name == "time" else "left", overflow="fold")
    shown = rows
    if len(rows) > _MOST_ROWS:
        shown = sorted(rows, key=lambda r: r.state not in ("running", "failed"))[:_MOST_ROWS]
    for row in shown:
        state = Text(row.state, style=_COLOURS.get(row.state, ""))
        table.add_row(Text(row.title), state, Text(row.doing), clock(row.seconds))
    return table


def show_for(as_json: bool) -> Show:
    """A table on a terminal; lines elsewhere, also beside JSON."""
    return LiveTable() if sys.stderr.isatty() and not as_json else Lines()


def clock(seconds: float) -> str:
    """
    >>> clock(0), clock(75), clock(4000)
    ('', '1:15', '1:06:40')
    """
    if seconds < 1:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _tail(row: RowView) -> str:
    parts = [clock(row.seconds) if row.state != "running" else "", row.reason]
    said = "; ".join(part for part in parts if part)
    return f" ({said})" if said else ""
