"""kill -9 at random moments, then --resume: it completes, and the ledger tells it all."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import drawing
from tests.run.nursery import Child, Nurse, nursery
from tests.workplace import SMALL_GAN, SMALL_MERF, Workplace
from understudy.privacy.accounting.accountants import price
from understudy.privacy.ledger.entries import Entry
from understudy.privacy.ledger.ledger import drop_torn_line, read_ledger
from understudy.privacy.ledger.released import released_ledger
from understudy.privacy.ledger.story import ledger_plan, spent_events, spent_uses
from understudy.release.verify import verify

EPSILON = 2.0
STEPS = 130
"""Blocks hold 50 steps, so a run of DP-SGD has three."""

RUNS = {
    "one-shot": (*SMALL_MERF, "--set", "steps=150"),
    "DP-SGD": (*SMALL_GAN, "--set", f"steps={STEPS}"),
}


@pytest.fixture(scope="module")
def nurse() -> Iterator[Nurse]:
    with nursery() as found:
        yield found


@dataclass
class Victim:
    """A run in a folder of its own that is killed and resumed."""

    place: Workplace
    nurse: Nurse
    kind: str
    left_open: int = 0
    seen: list[str] = field(default_factory=list)

    def run(self, kill_after: float | None = None) -> int:
        """Run or go on, killed after so many seconds unless it is done by then."""
        words = ["synthesize", "photos", *RUNS[self.kind], "--epsilon", str(EPSILON)]
        words += ["-o", "out"]
        if (self.place / "runs/out").exists():  # else it was killed before it had a plan
            words.append("--resume")
        child = self.nurse.start(words, self.place.folder, self.place / "said.txt")
        if kill_after is not None:
            time.sleep(kill_after)
            child.kill(signal.SIGKILL)
        code = child.wait()
        if code == -signal.SIGKILL:
            self.look()
        return code

    def look(self) -> None:
        """What a dead process left: a ledger that reads, at most one open block."""
        path = self.place / "runs/out/ledger.jsonl"
        if not path.exists():
            return
        drop_torn_line(path)
        entries = read_ledger(path)
        for name, uses in spent_uses(entries).items():
            assert uses <= ledger_plan(entries).mechanism(name).uses
        if entries[-1].kind == "reserve" and not self.kept(entries[-1]).exists():
            self.left_open += 1
        hashes = [e.hash for e in entries]
        assert hashes[: len(self.seen)] == self.seen, "a ledger only ever grows"
        self.seen = hashes

    def kept(self, entry: Entry) -> Path:
        return self.place / f"runs/out/checkpoints/block-{entry.body['block']:06d}"

    def check_finished(self) -> None:
        """Complete, within its budget, all voids recorded, nothing uncommitted left."""
        entries = read_ledger(self.place / "runs/out/ledger.jsonl")
        plan = ledger_plan(entries)
        assert spent_uses(entries) == {m.name: m.uses for m in plan.mechanisms}
        assert price(spent_events(entries), plan.delta).epsilon <= plan.epsilon <= EPSILON
        assert sum(e.kind == "void" for e in entries) == self.left_open
        assert [e.hash for e in entries][: len(self.seen)] == self.seen
        told = read_ledger(self.place / "out/ledger.jsonl")
        assert told == released_ledger(plan, entries[0].body["run"]), "it tells what happened"
        found = verify(self.place / "out")
        assert found.ok, found.problems
        assert found.claim is not None
        assert found.claim.epsilon <= EPSILON
        run = self.place / "runs/out"
        states = {p.name for p in (run / "checkpoints").iterdir()}
        committed = {self.kept(e).name for e in entries if e.kind == "commit"}
        assert states == committed, "a block is kept exactly if it is committed"
        leftovers = [p for p in self.place.folder.rglob("*") if _is_temporary(p.name)]
        assert leftovers == []
        self.check_book()

    def check_book(self) -> None:
        entered, released = self.place.book("enter"), self.place.book("release")
        assert len(entered) == 1, "one run, however often it died"
        plan = json.loads((self.place / "runs/out/plan.json").read_text())["plan"]
        assert entered[0]["plan"] == plan
        assert [r["digest"] for r in released] == [verify(self.place / "out").digest]


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name != ".lock"


def kill_and_resume(victim: Victim, moments: list[float]) -> None:
    for moment in moments:
        if victim.run(kill_after=moment) == 0:
            break
    code = victim.run()
    assert code == 0, (victim.place / "said.txt").read_text()
    victim.check_finished()


def how_long(victim: Victim) -> float:
    """Seconds of a run that nobody disturbs; itself a check of the checks."""
    start = time.monotonic()
    assert victim.run() == 0, (victim.place / "said.txt").read_text()
    victim.check_finished()
    return time.monotonic() - start


def make_victim(folder: Path, nurse: Nurse, kind: str) -> Victim:
    folder.mkdir()
    drawing.class_folder(folder / "photos")
    return Victim(Workplace(folder), nurse, kind)


def kill_often(tmp_path: Path, nurse: Nurse, kind: str, times: int, seed: int) -> None:
    chance = random.Random(seed)
    whole = how_long(make_victim(tmp_path / "whole", nurse, kind))
    for i in range(times):
        victim = make_victim(tmp_path / f"victim-{i}", nurse, kind)
        # Every third victim is killed again while it goes on.
        moments = [chance.uniform(0, whole) for _ in range(1 + (i % 3 == 2))]
        kill_and_resume(victim, moments)


@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNS)
def test_three_random_moments(tmp_path: Path, nurse: Nurse, kind: str) -> None:
    kill_often(tmp_path, nurse, kind, times=3, seed=len(kind))


@pytest.mark.audit
@pytest.mark.skipif("UNDERSTUDY_AUDIT" not in os.environ, reason="twenty moments: make audit")
@pytest.mark.parametrize("kind", RUNS)
def test_twenty_random_moments(tmp_path: Path, nurse: Nurse, kind: str) -> None:
    kill_often(tmp_path, nurse, kind, times=20, seed=2026)


@pytest.mark.slow
def test_killed_in_the_middle_of_a_block(tmp_path: Path, nurse: Nurse) -> None:
    """Certainly there: the first block is committed, the second is open."""
    victim = make_victim(tmp_path / "victim", nurse, "DP-SGD")
    words = ["synthesize", "photos", *RUNS["DP-SGD"], "--epsilon", str(EPSILON), "-o", "out"]
    child = nurse.start(words, victim.place.folder, victim.place / "said.txt")
    hold_in_second_block(child, victim.place / "runs/out/ledger.jsonl")
    child.kill(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    victim.look()
    assert victim.left_open == 1
    kill_and_resume(victim, [])
    entries = read_ledger(victim.place / "runs/out/ledger.jsonl")
    kinds = [e.kind for e in entries]
    assert kinds[:5] == ["plan", "reserve", "commit", "reserve", "void"]
    assert [e.body["uses"] for e in entries if e.kind == "commit"] == [50, 50, 30]


@pytest.mark.slow
def test_ctrl_c_commits_the_steps_done_and_says_how_to_go_on(tmp_path: Path, nurse: Nurse) -> None:
    victim = make_victim(tmp_path / "victim", nurse, "DP-SGD")
    words = ["synthesize", "photos", *RUNS["DP-SGD"], "--epsilon", str(EPSILON), "-o", "out"]
    child = nurse.start(words, victim.place.folder, victim.place / "said.txt")
    ledger = victim.place / "runs/out/ledger.jsonl"
    hold_in_second_block(child, ledger)
    child.kill(signal.SIGINT)
    child.kill(signal.SIGCONT)
    assert child.wait() == 2
    said = (victim.place / "said.txt").read_text()
    assert said == "error: stopped by Ctrl-C; what was finished is kept, add --resume to go on.\n"
    entries = read_ledger(ledger)
    assert [e.kind for e in entries] == ["plan", "reserve", "commit", "reserve", "commit"]
    assert 1 <= entries[-1].body["uses"] <= 50
    assert not (victim.place / "out").exists()
    kill_and_resume(victim, [])
    assert "void" not in [e.kind for e in read_ledger(victim.place / "runs/out/ledger.jsonl")]


@pytest.mark.slow
def test_ctrl_c_after_a_one_shot_release_keeps_what_was_paid_for(
    tmp_path: Path, nurse: Nurse
) -> None:
    """Stopped while the generator learns: the noisy sum is kept, not drawn and paid again."""
    victim = make_victim(tmp_path / "victim", nurse, "one-shot")
    words = ["synthesize", "photos", *SMALL_MERF, "--set", "steps=4000", "--epsilon", "2"]
    words += ["-o", "out"]
    child = nurse.start(words, victim.place.folder, victim.place / "said.txt")
    ledger = victim.place / "runs/out/ledger.jsonl"
    wait_for(lambda: ledger.exists() and '"kind":"commit"' in ledger.read_text())
    child.kill(signal.SIGINT)
    assert child.wait() == 2
    assert "--resume" in (victim.place / "said.txt").read_text()
    outputs = victim.place / "runs/out/checkpoints/block-000000/outputs.safetensors"
    before = outputs.read_bytes()
    again = nurse.start([*words, "--resume"], victim.place.folder, victim.place / "said.txt")
    assert again.wait() == 0
    assert outputs.read_bytes() == before
    victim.check_finished()
    kinds = [e.kind for e in read_ledger(victim.place / "runs/out/ledger.jsonl")]
    assert kinds == ["plan", "reserve", "commit", "close"]


def hold_in_second_block(child: Child, ledger: Path) -> None:
    """Stop the child once the second block of its run is certainly open."""

    def open_block() -> bool:
        text = ledger.read_text() if ledger.exists() else ""
        return text.count('"kind":"reserve"') == 2 and text.count('"kind":"commit"') == 1

    wait_for(open_block)
    child.kill(signal.SIGSTOP)
    time.sleep(0.05)
    assert open_block(), "the block was over before it could be held"


def wait_for(condition: object, seconds: float = 60.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)
