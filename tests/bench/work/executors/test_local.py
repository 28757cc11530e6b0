"""The local executor: real processes, let in by memory, cores and GPUs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.rig import cell
from tests.workplace import Workplace
from understudy.bench.work import worker
from understudy.bench.work.executors import local
from understudy.bench.work.executors.base import Ended, Job
from understudy.bench.work.executors.local import LocalExecutor, default_jobs, visible_gpus
from understudy.bench.work.task import task_of
from understudy.bench.work.workspace import State, Workspace
from understudy.errors import UserError


def job(folder: Path, name: str = "a", gigabytes: float = 0.5, wants_gpu: bool = True) -> Job:
    """A worker that ends at once: its task is not there."""
    return Job(name, folder / f"{name}.json", folder / f"{name}.log", gigabytes, wants_gpu)


def wait_for(executor: LocalExecutor, seconds: float = 60.0) -> Ended:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for ended in executor.poll():
            return ended
        time.sleep(0.02)
    raise AssertionError("the worker did not end")


def test_a_worker_without_a_task_ends_with_an_error_in_its_log(tmp_path: Path) -> None:
    executor = LocalExecutor(1, gpus=())
    executor.submit(job(tmp_path))
    assert not executor.has_room(job(tmp_path, "b")), "one at a time was asked for"
    assert wait_for(executor) == Ended("a", 1)
    assert "a.json" in (tmp_path / "a.log").read_text()
    assert executor.has_room(job(tmp_path, "b"))


def test_memory_decides_but_one_alone_may_always_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "available_gigabytes", lambda: 4.0)
    executor = LocalExecutor(8, gpus=())
    assert executor.has_room(job(tmp_path, gigabytes=100.0))
    executor.submit(job(tmp_path, gigabytes=3.0))
    assert executor.has_room(job(tmp_path, "b", gigabytes=0.5))
    assert not executor.has_room(job(tmp_path, "b", gigabytes=2.0)), "3 of 4 are promised"
    executor.stop()


def test_every_worker_gets_a_gpu_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str | None] = []

    def watch(self: LocalExecutor, gpu: str | None) -> dict[str, str]:
        del self
        given.append(gpu)
        return dict(os.environ)

    monkeypatch.setattr(LocalExecutor, "_environment", watch)
    executor = LocalExecutor(3, gpus=("0", "1"))
    executor.submit(job(tmp_path, "a"))
    executor.submit(job(tmp_path, "b"))
    assert not executor.has_room(job(tmp_path, "c"))
    assert executor.has_room(job(tmp_path, "c", wants_gpu=False))
    executor.stop()
    assert given == ["0", "1"]


def test_what_workers_find_in_their_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(local, "_cores", lambda: 8)
    assert LocalExecutor(2, gpus=())._environment(None)["OMP_NUM_THREADS"] == "4"
    assert LocalExecutor(gpus=("5",))._environment("5")["CUDA_VISIBLE_DEVICES"] == "5"
    assert LocalExecutor(gpus=("5",))._environment(None)["CUDA_VISIBLE_DEVICES"] == ""
    assert (default_jobs(0), default_jobs(3)) == (4, 3)
    monkeypatch.setattr(local, "_cores", lambda: 2)
    assert LocalExecutor(gpus=())._environment(None)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 3")
    assert visible_gpus() == ("2", "3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus() == ()


def test_no_workers_at_all_is_refused() -> None:
    with pytest.raises(UserError, match="--jobs"):
        LocalExecutor(0)


@pytest.mark.slow
def test_a_real_worker_stops_when_its_runner_is_gone_and_it_can_be_gone_on_with(
    workplace: Workplace,
) -> None:
    """Its standard input ends, as when the runner dies: it stops, keeps, and gives its lock."""
    space = Workspace(workplace / "bench")
    standing = space.standing(cell(workplace, "dp-gan"))
    task = task_of(standing, evidence=space.evidence, suite="s", command="c", home=workplace.home)
    task.write()
    executor = LocalExecutor(1, gpus=())
    executor.submit(Job("a", task.path, task.log, 0.5))
    _until((standing.folder.path / "run/ledger.jsonl").exists)
    assert standing.folder.is_busy()
    running = executor._running["a"].process
    assert running.stdin is not None
    running.stdin.close()
    assert wait_for(executor).code in (worker.STOPPED, worker.OK, -signal.SIGINT)
    assert not standing.folder.is_busy()
    assert worker.main(task.path) == worker.OK, task.log.read_text()
    assert space.standing(standing.cell).state is State.DONE


def _until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
