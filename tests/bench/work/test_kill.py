"""kill -9 of the runner and of its workers at random moments: nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.rig import cell, check_whole, children_of, kill, suite_file
from tests.run.nursery import Child, Nurse, nursery
from tests.workplace import Workplace

WORDS = ["bench", "run", "small.yaml"]


@pytest.fixture(scope="module")
def nurse() -> Iterator[Nurse]:
    with nursery("tests.bench.work.forking") as found:
        yield found


class Victim:
    """A suite of two runs whose processes are killed."""

    def __init__(self, folder: Path, nurse: Nurse) -> None:
        folder.mkdir(exist_ok=True)
        self.place, self.nurse = Workplace(folder), nurse
        suite_file(self.place, cell(self.place), cell(self.place, "dp-gan"))

    def run(self) -> int:
        return self._start().wait()

    def run_and_kill_runner(self, after: float) -> None:
        child = self._start()
        time.sleep(after)
        child.kill(signal.SIGKILL)
        child.wait()

    def run_and_kill_worker(self, after: float) -> None:
        """The runner sees it and starts another one; it ends as if nothing had been."""
        child = self._start()
        end = time.monotonic() + after
        while not (workers := children_of(child.pid)) and time.monotonic() < end + 1:
            time.sleep(0.005)
        time.sleep(max(0.0, end - time.monotonic()))
        for worker in children_of(child.pid)[:1] or workers[:1]:
            kill(worker, signal.SIGKILL)
        assert child.wait() == 0, (self.place / "said.txt").read_text()

    def _start(self) -> Child:
        return self.nurse.start(WORDS, self.place.folder, self.place / "said.txt")

    def finish(self) -> None:
        code = self.run()
        assert code == 0, (self.place / "said.txt").read_text()
        check_whole(self.place, cells=2)


def how_long(tmp_path: Path, nurse: Nurse) -> float:
    """Seconds of a start that nobody disturbs; itself a check of the checks."""
    whole = Victim(tmp_path / "whole", nurse)
    start = time.monotonic()
    whole.finish()
    return time.monotonic() - start


def kill_often(tmp_path: Path, nurse: Nurse, times: int, seed: int) -> None:
    chance, whole = random.Random(seed), how_long(tmp_path, nurse)
    for i in range(times):
        victim = Victim(tmp_path / f"victim-{i}", nurse)
        victim.run_and_kill_runner(chance.uniform(0, whole))
        victim.run_and_kill_worker(chance.uniform(0, whole / 2))
        victim.finish()


@pytest.mark.slow
def test_two_random_moments(tmp_path: Path, nurse: Nurse) -> None:
    kill_often(tmp_path, nurse, times=1, seed=3)


@pytest.mark.audit
@pytest.mark.skipif("UNDERSTUDY_AUDIT" not in os.environ, reason="ten moments: make audit")
def test_ten_random_moments(tmp_path: Path, nurse: Nurse) -> None:
    kill_often(tmp_path, nurse, times=10, seed=2026)


@pytest.mark.slow
def test_ctrl_c_stops_workers_gently_and_the_next_start_goes_on(
    tmp_path: Path, nurse: Nurse
) -> None:
    victim = Victim(tmp_path / "victim", nurse)
    child = nurse.start(WORDS, victim.place.folder, victim.place / "said.txt")
    end = time.monotonic() + 30
    while not list(victim.place.folder.glob("bench/cells/*/run/ledger.jsonl")):
        assert time.monotonic() < end
        time.sleep(0.005)
    child.kill(signal.SIGINT)
    assert child.wait() == 2
    said = (victim.place / "said.txt").read_text()
    assert said.endswith("error: stopped by Ctrl-C; nothing is lost, the same command goes on.\n")
    assert not list(victim.place.folder.glob("bench/cells/*/failures/*"))
    victim.finish()
