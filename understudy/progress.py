"""How long work tells what it is doing, without knowing who is looking."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Protocol, runtime_checkable

_SLOWEST_BY_SECOND = 0.05


class Task(Protocol):
    """One bar. `note` may show only what is public: rates, counts of committed steps."""

    def advance(self, steps: int = 1) -> None: ...

    def note(self, text: str) -> None: ...


class Progress(Protocol):
    """Opens bars; the command line draws them, tests and notebooks may not."""

    def task(self, description: str, total: int | None = None) -> AbstractContextManager[Task]: ...

    def say(self, line: str) -> None: ...


@runtime_checkable
class SpendingProgress(Progress, Protocol):
    """Progress that knows a plan, and shows what the steps of one of its mechanisms cost."""

    def steps_of(
        self, mechanism: str, description: str, total: int
    ) -> AbstractContextManager[Task]: ...


def bar_of_steps(
    progress: Progress, mechanism: str, description: str, total: int
) -> AbstractContextManager[Task]:
    """A bar of a mechanism's steps, with what they cost if somebody knows."""
    if isinstance(progress, SpendingProgress):
        return progress.steps_of(mechanism, description, total)
    return progress.task(description, total)


class _SilentTask:
    def advance(self, steps: int = 1) -> None:
        del steps

    def note(self, text: str) -> None:
        del text


class Silent:
    """Progress that nobody sees."""

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        del description, total
        yield _SilentTask()

    def say(self, line: str) -> None:
        del line


class Once:
    """Passes bars on as they are, and every sentence once."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._said: set[str] = set()

    def task(self, description: str, total: int | None = None) -> AbstractContextManager[Task]:
        return self._shown.task(description, total)

    def say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._shown.say(line)


class ProgressLines:
    """Progress as plain lines, at most one in some seconds, for logs."""

    def __init__(self, write: Callable[[str], None], every: float) -> None:
        self._write, self._every = write, every

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        began = time.monotonic()
        yield _Line(self._write, self._every, description, total)
        took = time.monotonic() - began
        if total is None and took >= self._every:
            self._write(f"{description}: {took:.0f} s")

    def say(self, line: str) -> None:
        self._write(line)


class _Line:
    def __init__(
        self, write: Callable[[str], None], every: float, description: str, total: int | None
    ) -> None:
        self._write, self._every = write, every
        self._description, self._total = description, total
        self._done = self._done_then = self._lines = 0
        self._note = ""
        self._said = time.monotonic()

    def advance(self, steps: int = 1) -> None:
        self._done += steps
        now = time.monotonic()
        if now - self._said >= self._every:
            rate = (self._done - self._done_then) / (now - self._said)
            self._said, self._done_then = now, self._done
            whole = "" if self._total is None else f"/{self._total}"
            noted = f", {self._note}" if self._note else ""
            # Not in the first line: until then compilers and others may have taken their time.
            left = _left(self._total, self._done, rate) if self._lines else ""
            self._lines += 1
            self._write(
                f"{self._description} {self._done}{whole} ({rate_in_words(rate)}{left}{noted})"
            )

    def note(self, text: str) -> None:
        self._note = text


def rate_in_words(speed: float) -> str:
    """Steps a second, or seconds a step where steps are long, as those of an evaluation.

    >>> rate_in_words(1234.5), rate_in_words(0.02), rate_in_words(0.0)
    ('1,234.5/s', '50 s each', '')
    """
    if speed <= 0:
        return ""
    return f"{speed:,.1f}/s" if speed >= _SLOWEST_BY_SECOND else f"{1 / speed:,.0f} s each"


def _left(total: int | None, done: int, rate: float) -> str:
    """How long it still takes at this rate, after a comma."""
    if total is None or not 0 < done < total or rate <= 0:
        return ""
    return f", {timedelta(seconds=round((total - done) / rate))} left"
