"""Reserve, commit, recover: at any point of death, a block is kept and charged, or gone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.privacy.ledger.deaths import Death, death_between_rename_and_ledger, every_death
from tests.privacy.rig import kinds, plan
from understudy.errors import PrivacyError, UserError
from understudy.privacy.ledger.checkpoint import Checkpoint
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.state import State
from understudy.privacy.ledger.story import spent_uses
from understudy.privacy.plan.mechanisms import DPSGD, NoisySum

MECHANISMS = (
    NoisySum("sum", clip=1.0, sigma=2.0),
    DPSGD("sgd", steps=10, rate=0.1, clip=1.0, sigma=1.0),
)


def new(folder: Path) -> Journal:
    return Journal.create(folder, plan(*MECHANISMS), {})


def output(value: float) -> State:
    return State(tensors={"output": torch.tensor([value])})


def method(step: int) -> Checkpoint:
    return Checkpoint(State(values={"step": step}), {"sum": 1})


def script(journal: Journal) -> None:
    """A release, two blocks of steps with state, and a third that is not finished."""
    journal.reserve("sum", 1)
    (journal.scratch / "first").write_text("of the first block")
    journal.commit(1, output(7.0), None)
    for step in (2, 4):
        journal.reserve("sgd", 2)
        (journal.scratch / "later").write_text(f"of the block up to {step}")
        journal.commit(2, None, method(step))
    journal.reserve("sgd", 2)
    (journal.scratch / "last").write_text("of a block that dies")


def check_whole(folder: Path) -> None:
    """Every block is on the disk and in the ledger, or in neither; nothing is in between."""
    entries = read_ledger(folder / "ledger.jsonl")
    committed = {e.body["block"] for e in entries if e.kind == "commit"}
    rooms = {p.name for p in (folder / "checkpoints").iterdir()}
    assert rooms == {f"block-{block:06d}" for block in committed}
    assert entries[-1].kind in ("plan", "commit", "void", "close")
    if entries[-1].kind == "void":
        assert not list((folder / "scratch").iterdir())


def check_state(journal: Journal) -> None:
    """What is given back is exactly what the ledger charges."""
    spent = spent_uses(journal.ledger.entries)
    kept = journal.output("sum", 0)
    assert (kept is not None) == bool(spent.get("sum"))
    assert kept is None or kept.tensors["output"].item() == 7.0
    state = journal.checkpoint()
    assert (0 if state is None else state.method.values["step"]) == spent.get("sgd", 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    return run


def test_a_commit_is_kept_whole(folder: Path) -> None:
    journal = new(folder)
    script(journal)
    assert kinds(folder) == ["plan", *["reserve", "commit"] * 3, "reserve"]
    journal.release_lock()
    check_state(Journal.open(folder))
    assert sorted(p.name for p in (folder / "checkpoints/block-000000").iterdir()) == [
        "commit.json",
        "outputs.json",
        "outputs.safetensors",
    ]


def test_only_the_newest_method_state_is_kept(folder: Path) -> None:
    script(new(folder))
    states = sorted(p.parent.name for p in folder.rglob("method.json"))
    assert states == ["block-000002"]


def test_dying_anywhere_leaves_nothing_half_done(folder: Path) -> None:
    """Die at every touch of the disk of a run; then open, and open again."""
    living: list[Journal] = []

    def fresh() -> None:
        shutil.rmtree(folder)
        folder.mkdir()

    def work() -> None:
        living.append(new(folder))
        script(living[0])

    last = set()
    for _ in every_death(work, fresh):
        while living:
            living.pop().release_lock()
        if not (folder / "ledger.jsonl").exists():
            continue
        recovered = Journal.open(folder)
        check_whole(folder)
        check_state(recovered)
        recovered.release_lock()
        before = (folder / "ledger.jsonl").read_bytes()
        Journal.open(folder).release_lock()
        assert (folder / "ledger.jsonl").read_bytes() == before
        last.add(kinds(folder)[-1])
    assert last == {"plan", "commit", "void"}


@pytest.mark.parametrize("committed", [True, False], ids=["commit to copy", "block to void"])
def test_dying_in_recovery_is_recovered_from(folder: Path, committed: bool) -> None:
    journal = new(folder)
    script(journal)
    if committed:
        with pytest.raises(Death), death_between_rename_and_ledger():
            journal.commit(2, None, method(6))
    journal.release_lock()
    left = folder.with_name("left")
    folder.rename(left)

    def as_left() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(left, folder)

    for _ in every_death(lambda: Journal.open(folder).release_lock(), as_left):
        Journal.open(folder).release_lock()
        check_whole(folder)
        assert kinds(folder)[-1] == ("commit" if committed else "void")


def test_a_kept_block_is_charged_even_if_the_ledger_did_not_say_so(folder: Path) -> None:
    journal = new(folder)
    script(journal)
    with pytest.raises(Death), death_between_rename_and_ledger():
        journal.commit(2, None, method(6))
    assert journal.left_to_recovery
    journal.release_lock()
    recovered = Journal.open(folder)
    assert recovered.spent("sgd") == 6
    assert recovered.checkpoint() == method(6)


def test_a_torn_commit_line_is_written_again(folder: Path) -> None:
    journal = new(folder)
    script(journal)
    journal.commit(2, None, method(6))
    journal.release_lock()
    path = folder / "ledger.jsonl"
    whole = path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    for cut in range(start, len(whole), 17):
        path.write_bytes(whole[:cut])
        Journal.open(folder).release_lock()
        assert path.read_bytes() == whole


def test_a_void_block_is_run_again_under_a_new_number(folder: Path) -> None:
    journal = new(folder)
    script(journal)
    journal.release_lock()
    again = Journal.open(folder)
    assert again.spent("sgd") == 4
    again.reserve("sgd", 2)
    again.commit(2, None, method(6))
    check_whole(folder)
    assert [e.body["block"] for e in again.ledger.entries if e.kind == "reserve"] == [0, 1, 2, 3, 4]


def test_a_block_of_another_ledger_is_refused(folder: Path) -> None:
    journal = new(folder)
    journal.reserve("sgd", 2)
    journal.release_lock()
    alien = folder / "checkpoints/block-000000"
    alien.mkdir()
    for content in ("", "{}", json.dumps({"body": {"uses": 2}, "hash": "0" * 64})):
        (alien / "commit.json").write_text(content)
        with pytest.raises(PrivacyError, match="does not belong"):
            Journal.open(folder)
    assert kinds(folder)[-1] == "reserve"


def test_a_new_run_refuses_a_folder_with_blocks(folder: Path) -> None:
    journal = new(folder)
    script(journal)
    journal.release_lock()
    (folder / "ledger.jsonl").unlink()
    with pytest.raises(PrivacyError, match="another run"):
        new(folder)


def test_a_commit_that_the_ledger_would_refuse_is_refused_before_it_is_kept(folder: Path) -> None:
    journal = new(folder)
    journal.reserve("sgd", 2)
    for uses in (0, 3):
        with pytest.raises(UserError):
            journal.commit(uses, None, method(1))
    assert not list((folder / "checkpoints").iterdir())
    journal.commit(2, None, method(2))
    check_whole(folder)


def test_outputs_are_found_among_blocks_that_hold_none(folder: Path) -> None:
    """Blocks of steps keep no output; asking for one of theirs is not an error."""
    journal = new(folder)
    script(journal)
    assert journal.outputs_kept("sgd") == 0
    assert journal.output("sgd", 0) is None
    assert journal.outputs_kept("sum") == 1


def test_a_second_process_is_refused_while_the_first_lives(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from understudy.privacy.ledger.journal import Journal;"
        "Journal.open(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    new(folder).release_lock()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(UserError, match="another process"):
            Journal.open(folder)
        other.kill()
        other.wait()
    Journal.open(folder).release_lock()


def test_a_failed_open_gives_the_lock_back(folder: Path) -> None:
    new(folder).release_lock()
    with pytest.raises(PrivacyError, match="single-use"):
        new(folder)
    ledger = folder / "ledger.jsonl"
    good = ledger.read_bytes()
    ledger.write_bytes(b"nonsense\n")
    with pytest.raises(UserError, match="not an entry"):
        Journal.open(folder)
    ledger.write_bytes(good)
    Journal.open(folder).release_lock()


def test_a_missing_run_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run folder"):
        Journal.open(tmp_path / "nowhere")


def test_what_a_dead_process_was_writing_is_taken_away(folder: Path) -> None:
    """Half a file beside its place, half a block, a synthesizer that was being kept."""
    journal = new(folder)
    script(journal)
    (folder / ".times.json.0123456789ab.new").write_text("{")
    (folder / ".synthesizer.new").mkdir()
    (folder / "checkpoints" / ".pending-000003").mkdir()
    journal.release_lock()
    Journal.open(folder)
    left = [p.name for p in folder.rglob(".*") if p.name != ".lock"]
    assert left == []
    check_whole(folder)
