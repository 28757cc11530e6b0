"""One worker: a process that brings one cell as far as it goes, then ends.

    python -m understudy.bench.work.worker TASK.json

It holds the cell folder's lock, which the kernel gives back if it dies. Whoever started it
holds the other end of its standard input: when that closes, its runner is gone, and the
worker stops as if by Ctrl-C. What was committed stays; the next worker goes on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from understudy.bench.work.cell_folder import PHASES, BusyError, Failure, Phase
from understudy.bench.work.phases import PHASE_WORK, Work, record
from understudy.bench.work.task import CellTask
from understudy.errors import UserError
from understudy.progress import Task

OK, FAILED, BUSY, STOPPED = 0, 1, 75, 130
"""How a worker ends: the cell is done; it failed and says why; another holds it; told to stop."""

_WRITE_EVERY = 0.5


def main(task_path: Path) -> int:
    task = CellTask.read(task_path)
    try:
        with task.folder.locked():
            return work_through(task)
    except BusyError:
        return BUSY
    except KeyboardInterrupt:
        return STOPPED


def work_through(task: CellTask) -> int:
    """Every open phase in turn; an error becomes a row with its reason."""
    shown = ProgressFile(task.progress_file)
    work = task.work(shown)
    phase = PHASES[0]
    try:
        for phase in PHASES:
            shown.phase = phase
            PHASE_WORK[phase](work)
        record(work, task.evidence)
    except Exception as error:  # noqa: BLE001 - whatever a method raises is a row
        traceback.print_exc()
        fail(work, task.evidence, phase, type(error).__name__, _words(error))
        return FAILED
    return OK


def fail(work: Work, evidence: Path, phase: Phase, kind: str, words: str) -> Failure:
    """Keep a failure as a row of the evidence and in the cell's folder."""
    failure = Failure(phase, getattr(work.keys, phase), kind, words)
    record(work, evidence, failure)
    work.folder.write_failure(failure)
    return failure


def _words(error: Exception) -> str:
    said = str(error).strip() or "no more was said"
    return said if isinstance(error, UserError) else f"{type(error).__name__}: {said}"


class ProgressFile:
    """Progress as a small file that the runner reads, wherever it is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._phase = ""
        self._written = 0.0
        self._began = time.time()

    @property
    def phase(self) -> str:
        return self._phase

    @phase.setter
    def phase(self, name: str) -> None:
        self._phase = name
        self.write("", force=True)

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        yield _Counted(self, description, total)

    def say(self, line: str) -> None:
        print(line, file=sys.stderr)

    def write(self, note: str, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now - self._written < _WRITE_EVERY:
            return
        self._written = now
        new = self._path.with_name(f".{self._path.name}.new")
        # Nobody's work depends on this file: a full disk must not end a run over it.
        with suppress(OSError):
            new.write_text(json.dumps({"phase": self._phase, "note": note, "began": self._began}))
            new.replace(self._path)


class _Counted:
    def __init__(self, file: ProgressFile, description: str, total: int | None) -> None:
        self._file, self._description, self._total = file, description, total
        self._done = 0

    def advance(self, steps: int = 1) -> None:
        self._done += steps
        whole = "" if self._total is None else f"/{self._total}"
        self._file.write(f"{self._description} {self._done}{whole}")

    def note(self, text: str) -> None:
        self._file.write(f"{self._description}: {text}")


def stop_with_my_runner(descriptor: int) -> None:
    """Interrupt this process once this pipe ends: nobody waits for it any more."""

    def watch() -> None:
        with suppress(OSError):
            while os.read(descriptor, 4096):
                pass
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    stop_with_my_runner(sys.stdin.fileno())
    sys.exit(main(Path(sys.argv[1])))
