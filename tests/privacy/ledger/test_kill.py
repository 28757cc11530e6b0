"""kill -9 and Ctrl-C at random moments of real processes, and what is there afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.privacy.ledger.kill_target import INTERRUPTED, PLANS
from tests.privacy.rig import kinds
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import spent_uses

LONG = os.environ.get("UNDERSTUDY_AUDIT") == "1"
MOMENTS = 20 if LONG else 3
pytestmark = pytest.mark.audit if LONG else []


class Runner:
    """Starts runs in processes of their own, and ends them as asked."""

    def __init__(self) -> None:
        root = Path(__file__).parents[3]
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.privacy.ledger.kill_target"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self._line() == "ready"

    def run(self, kind: str, folder: Path, send: int = 0, after: float = 0.0) -> int:
        """Run, send a signal so many seconds after the start; the exit code."""
        assert self._server.stdin is not None
        self._server.stdin.write(f"{kind} {int(send)} {after} {folder}\n")
        self._server.stdin.flush()
        return int(self._line())

    def finish(self, kind: str, folder: Path) -> float:
        """Run to the end; how long that took."""
        start = time.monotonic()
        assert self.run(kind, folder) == 0
        return time.monotonic() - start

    def stop(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(timeout=30)

    def _line(self) -> str:
        assert self._server.stdout is not None
        return self._server.stdout.readline().rstrip("\n")


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    started = Runner()
    yield started
    started.stop()


def planned(kind: str) -> dict[str, int]:
    return {m.name: m.uses for m in PLANS[kind]}


def check_after_death(kind: str, folder: Path) -> bool:
    """Recover; nothing uncommitted may be left. Whether a block had to be voided."""
    if not (folder / "ledger.jsonl").exists():
        return False
    before = kinds_of_torn(folder)
    journal = Journal.open(folder)
    after = kinds(folder)
    assert after[: len(before)] == before
    assert after[len(before) :] in ([], ["void"], ["commit"])
    assert all(journal.spent(name) <= uses for name, uses in planned(kind).items()), (
        "more was spent than planned"
    )
    committed = {e.body["block"] for e in journal.ledger.entries if e.kind == "commit"}
    rooms = {p.name for p in (folder / "checkpoints").iterdir()}
    assert rooms == {f"block-{number:06d}" for number in committed}
    state = journal.checkpoint()
    assert (0 if state is None else state.method.values["step"]) == journal.spent("sgd")
    voided = after[len(before) :] == ["void"]
    if voided:
        assert not list((folder / "scratch").iterdir())
    latest = folder / "scratch" / "latest"
    assert not latest.exists() or int(latest.read_text()) <= journal.spent("sgd")
    journal.release_lock()
    return voided


def kinds_of_torn(folder: Path) -> list[str]:
    """The kinds of the whole lines of a ledger whose process died."""
    path = folder / "ledger.jsonl"
    whole = path.read_bytes().rpartition(b"\n")[0] + b"\n"
    copy = folder.with_name(f"{folder.name}-copy.jsonl")
    copy.write_bytes(whole)
    return [entry.kind for entry in read_ledger(copy)]


@pytest.mark.parametrize("kind", PLANS)
def test_killed_at_random_moments_and_resumed(runner: Runner, tmp_path: Path, kind: str) -> None:
    duration = runner.finish(kind, tmp_path / "undisturbed")
    voids = 0
    for moment in range(MOMENTS):
        folder = tmp_path / f"run{moment}"
        after = (moment + random.random()) / MOMENTS * duration
        code = runner.run(kind, folder, signal.SIGKILL, after)
        assert code in (-signal.SIGKILL, 0)
        voided = check_after_death(kind, folder)
        runner.finish(kind, folder)
        entries = read_ledger(folder / "ledger.jsonl")
        assert spent_uses(entries) == planned(kind)
        assert [e.kind for e in entries].count("void") == voided
        assert not list((folder / "checkpoints").glob(".pending*"))
        assert (folder / "result").exists()
        voids += voided
    if LONG:
        assert voids > 0, "no moment fell into a block"


def test_killed_again_and_again(runner: Runner, tmp_path: Path) -> None:
    """One run that dies at every start until it gets through: its plan is spent once."""
    folder = tmp_path / "run"
    duration = runner.finish("dp-sgd", tmp_path / "undisturbed")
    voids = 0
    for _ in range(MOMENTS):
        runner.run("dp-sgd", folder, signal.SIGKILL, random.uniform(0.2, 0.8) * duration)
        voids += check_after_death("dp-sgd", folder)
    runner.finish("dp-sgd", folder)
    assert spent_uses(read_ledger(folder / "ledger.jsonl")) == planned("dp-sgd")
    assert kinds(folder).count("void") == voids


def test_ctrl_c_commits_the_steps_that_were_shown(runner: Runner, tmp_path: Path) -> None:
    duration = runner.finish("dp-sgd", tmp_path / "undisturbed")
    for moment in range(MOMENTS):
        folder = tmp_path / f"run{moment}"
        after = (moment + random.random()) / MOMENTS * duration
        code = runner.run("dp-sgd", folder, signal.SIGINT, after)
        assert code in (INTERRUPTED, 0, -signal.SIGINT)
        shown = _lines(folder / "shown")
        if not (folder / "ledger.jsonl").exists():
            assert shown == 0
            continue
        told = kinds(folder)
        assert told[-1] in ("plan", "commit")
        assert "void" not in told
        assert spent_uses(read_ledger(folder / "ledger.jsonl")).get("sgd", 0) == shown
        runner.finish("dp-sgd", folder)
        assert _lines(folder / "shown") == planned("dp-sgd")["sgd"]
        assert spent_uses(read_ledger(folder / "ledger.jsonl")) == planned("dp-sgd")


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0
