"""Progress bars on a terminal, lines in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from understudy.cli.colours import marked
from understudy.progress import Progress, ProgressLines, Silent, Task, rate_in_words

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn, TaskID


_REMEMBERED = 600.0
"""Seconds of progress that the time left is estimated by: a block of private steps takes up to
thirty, and rich's own thirty would forget the last before the next is there."""

_LINE_EVERY = 30.0

_WIDE = 130
"""Columns of a terminal that has room for everything in one line."""


class Bars:
    """Draws bars with rates on standard error while work goes on, and removes them after."""

    def __init__(self) -> None:
        self._live: RichProgress | None = None
        self._depth = 0

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        live = self._start()
        number = live.add_task(description, total=total, rate="", note="")
        try:
            yield _Bar(live, number)
        finally:
            live.remove_task(number)
            self._stop()

    def say(self, line: str) -> None:
        if self._live is not None:
            from rich.text import Text

            words = Text.from_ansi(marked(line, sys.stderr))
            self._live.console.print(words, highlight=False, markup=False)
        else:
            print(marked(line, sys.stderr), file=sys.stderr)

    def _start(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import Progress

        if self._live is None:
            console = Console(stderr=True)
            self._live = Progress(
                *(_narrow() if console.width < _WIDE else _wide()),
                console=console,
                speed_estimate_period=_REMEMBERED,
                transient=True,
            )
            self._live.start()
        self._depth += 1
        return self._live

    def _stop(self) -> None:
        self._depth -= 1
        if self._depth == 0 and self._live is not None:
            self._live.stop()
            self._live = None


def _wide() -> list[ProgressColumn]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    ]


def _narrow() -> list[ProgressColumn]:
    """For 80 columns: notes stand below, and nothing that somebody waits for is cut off."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    return [
        TextColumn("{task.description}\n{task.fields[note]}"),
        BarColumn(bar_width=8),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    ]


class _Bar:
    def __init__(self, live: RichProgress, number: TaskID) -> None:
        self._live, self._number = live, number

    def advance(self, steps: int = 1) -> None:
        self._live.advance(self._number, steps)
        task = self._live.tasks[self._live.task_ids.index(self._number)]
        speed = task.speed or (task.completed / task.elapsed if task.elapsed else 0.0)
        self._live.update(self._number, rate=rate_in_words(speed))

    def note(self, text: str) -> None:
        self._live.update(self._number, note=text)


class Plain(Silent):
    """No bars (--json), but warnings still reach standard error."""

    def say(self, line: str) -> None:
        print(marked(line, sys.stderr), file=sys.stderr)


def bars(as_json: bool = False) -> Progress:
    """Bars on a terminal; in a log, lines now and then; for programs, nothing but warnings."""
    if as_json:
        return Plain()
    if sys.stderr.isatty():
        return Bars()
    return ProgressLines(lambda line: print(line, file=sys.stderr, flush=True), _LINE_EVERY)
