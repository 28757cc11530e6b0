"""How long work tells what it is doing, without knowing who is looking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable


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
