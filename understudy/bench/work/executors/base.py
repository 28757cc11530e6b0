"""What an executor is: something that starts workers on task files and says how they ended.

A task is a path and a forecast, nothing of Python, so that a queue on another machine with
the same file system can take it as well as a process here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Job:
    """One worker to start: `python -m understudy.bench.work.worker TASK`, its words going to `log`.

    gigabytes: the memory that it may need. wants_gpu: whether it would use one.
    """

    name: str
    task: Path
    log: Path
    gigabytes: float
    wants_gpu: bool = True


@dataclass(frozen=True)
class Ended:
    """How a worker ended: its exit code, or minus the signal that killed it."""

    name: str
    code: int


class Executor(Protocol):
    """Starts workers, without waiting for them."""

    def has_room(self, job: Job) -> bool:
        """Whether `submit` would start this one now; True whenever nothing is running."""
        ...

    def submit(self, job: Job) -> None: ...

    def poll(self) -> Sequence[Ended]:
        """Those that ended since the last call; does not wait."""
        ...

    def stop(self) -> Sequence[Ended]:
        """Ask all workers to stop at their next good moment, wait for them, and tell of them."""
        ...
