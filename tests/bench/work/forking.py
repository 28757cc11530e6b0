"""`understudy bench` in a process that is forked, with workers that are forked too.

Run by a nurse (see `tests.run.nursery`), so that a death costs no new interpreter. Runner,
worker, locks and files are the real ones; only the start of a worker differs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from unittest import mock

from tests.run.nursery import obey
from understudy.bench.work import worker
from understudy.bench.work.executors.base import Ended, Job
from understudy.bench.work.executors.local import LocalExecutor
from understudy.cli.main import run

IMPORTED = (
    *("understudy.bench.work.runner", "understudy.bench.suite.suite", "understudy.run.evaluate"),
    *("understudy.run.claiming", "understudy.run.start", "sklearn.datasets", "scipy.linalg"),
    "understudy.evaluation.utility",
)


@dataclass
class ForkingExecutor:
    """As the local executor, with a fork in place of a new interpreter."""

    jobs: int | None = None
    _pipes: dict[str, int] = field(default_factory=dict)
    _pids: dict[str, int] = field(default_factory=dict)

    def has_room(self, job: Job) -> bool:
        del job
        return len(self._pids) < 2

    def submit(self, job: Job) -> None:
        mine, ours = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            for pipe in (ours, *self._pipes.values()):
                os.close(pipe)
            os.dup2(mine, 0)
            os._exit(_worker(job))
        os.close(mine)
        self._pids[job.name], self._pipes[job.name] = pid, ours

    def poll(self) -> Sequence[Ended]:
        return [e for name in list(self._pids) if (e := self._ended(name, os.WNOHANG))]

    def stop(self) -> Sequence[Ended]:
        for pid in self._pids.values():
            os.kill(pid, 2)
        return [e for name in list(self._pids) if (e := self._ended(name, 0))]

    def _ended(self, name: str, how: int) -> Ended | None:
        pid, status = os.waitpid(self._pids[name], how)
        if pid == 0:
            return None
        del self._pids[name]
        os.close(self._pipes.pop(name))
        return Ended(name, os.waitstatus_to_exitcode(status))


def _worker(job: Job) -> int:
    worker.stop_with_my_runner(0)
    return worker.main(job.task)


def forked(words: Sequence[str]) -> int:
    with mock.patch(f"{LocalExecutor.__module__}.{LocalExecutor.__name__}", ForkingExecutor):
        return run(words)


if __name__ == "__main__":
    obey(forked, IMPORTED)
