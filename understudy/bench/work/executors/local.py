"""Workers as processes of this machine, as many as its memory, cores and GPUs carry."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from understudy.bench.work.executors.base import Ended, Job
from understudy.errors import UserError

_MEMORY = Path("/proc/meminfo")
_GPUS = Path("/proc/driver/nvidia/gpus")
_PATIENCE = 60.0
"""Seconds that a worker has to stop by itself; a killed one loses an open block, no more."""

_SMALL = 4
"""Up to so many cores every worker gets one; beyond, two."""


@dataclass
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    gpu: str | None


@dataclass
class LocalExecutor:
    """At most `jobs` workers at once, by default as many as there are cores or GPUs.

    A worker is not started while the memory that it is expected to need is not there, unless
    none is running: one alone may always try.
    """

    jobs: int | None = None
    gpus: Sequence[str] | None = None
    _running: dict[str, _Running] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UserError(f"--jobs must be at least 1, not {self.jobs}.")
        if self.gpus is None:
            self.gpus = visible_gpus()

    @property
    def most(self) -> int:
        return self.jobs or default_jobs(len(self.gpus or ()))

    def has_room(self, job: Job) -> bool:
        if not self._running:
            return True
        if len(self._running) >= self.most or (self._needs_gpu(job) and not self._free_gpus()):
            return False
        return job.gigabytes <= available_gigabytes() - self._promised()

    def submit(self, job: Job) -> None:
        gpu = self._free_gpus()[0] if self._needs_gpu(job) and self._free_gpus() else None
        with job.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "understudy.bench.work.worker", str(job.task)],
                stdin=subprocess.PIPE,  # held open: its end tells the worker that we are gone
                stdout=log,
                stderr=log,
                env=self._environment(gpu),
                start_new_session=True,  # Ctrl-C is for us; we pass it on
            )
        self._running[job.name] = _Running(job, process, gpu)

    def poll(self) -> Sequence[Ended]:
        ended = []
        for name, running in list(self._running.items()):
            code = running.process.poll()
            if code is not None:
                ended.append(self._forget(name, code))
        return ended

    def stop(self) -> Sequence[Ended]:
        for running in self._running.values():
            with suppress(ProcessLookupError):
                running.process.send_signal(signal.SIGINT)
        end = time.monotonic() + _PATIENCE
        ended = []
        for name, running in list(self._running.items()):
            try:
                code = running.process.wait(timeout=max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.process.kill()
                code = running.process.wait()
            ended.append(self._forget(name, code))
        return ended

    def _forget(self, name: str, code: int) -> Ended:
        running = self._running.pop(name)
        if running.process.stdin is not None:
            running.process.stdin.close()
        return Ended(name, code)

    def _needs_gpu(self, job: Job) -> bool:
        return bool(self.gpus) and job.wants_gpu

    def _free_gpus(self) -> list[str]:
        taken = {running.gpu for running in self._running.values()}
        return [gpu for gpu in self.gpus or () if gpu not in taken]

    def _promised(self) -> float:
        """Memory that running workers were let in for and have not taken yet."""
        return sum(
            max(0.0, r.job.gigabytes - resident_gigabytes(r.process.pid))
            for r in self._running.values()
        )

    def _environment(self, gpu: str | None) -> Mapping[str, str]:
        threads = str(max(1, _cores() // self.most))
        own = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}
        if self.gpus:
            own["CUDA_VISIBLE_DEVICES"] = gpu or ""
        return {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", **own}


def default_jobs(gpus: int) -> int:
    if gpus:
        return gpus
    return _cores() if _cores() <= _SMALL else _cores() // 2


def visible_gpus() -> tuple[str, ...]:
    """The GPUs that workers may use, without importing torch to ask."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return tuple(part.strip() for part in chosen.split(",") if part.strip())
    return tuple(str(i) for i, _ in enumerate(sorted(_GPUS.glob("*"))))


def available_gigabytes() -> float:
    """Memory that new processes could take, as the system estimates it."""
    with suppress(OSError):
        for line in _MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) / 2**20
    return float("inf")


def resident_gigabytes(pid: int) -> float:
    with suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**30
    return 0.0


def _cores() -> int:
    return len(os.sched_getaffinity(0))
