"""State between releases: a run of several that is killed goes on where it was, exactly once."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.privacy.ledger.deaths import dying
from tests.privacy.rig import (
    classify,
    enter,
    kinds,
    leave,
    mlp,
    open_door,
    pixels,
    records,
    snapshot_of,
)
from understudy.errors import PrivacyError, RunFailed
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.door import Door
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.checkpoint import Checkpoint
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.state import State
from understudy.privacy.ledger.story import spent_uses
from understudy.privacy.plan.mechanisms import DPSGD, NoisyHistogram, NoisySum

ROUNDS = 3
SUMS = tuple(NoisySum(f"round {i}", clip=1.0, sigma=2.0) for i in range(ROUNDS))
KILLED = 9
Work = Callable[[Door, Path], None]


def evolve(door: Door, folder: Path) -> None:
    """Candidates that follow from every release so far; kept after each of them."""
    private, state = enter(door, records(9)), door.restore()
    done = 0 if state is None else int(state.values["done"])
    candidates = torch.zeros(16) if state is None else state.tensors["candidates"]
    for number in range(done, ROUNDS):
        output = private.noisy_sum(pixels, clip=1.0, sigma=2.0)
        show(folder, number, output)
        candidates = candidates / 2 + output
        door.checkpoint(partial(State, {"candidates": candidates}, {"done": number + 1}))
    (folder / "result").write_text(json.dumps(candidates.tolist()))


def forget(door: Door, folder: Path) -> None:
    """A method that never checkpoints: it begins again with all that was released."""
    private, candidates = enter(door, records(9)), torch.zeros(16)
    for number in range(ROUNDS):
        output = private.noisy_sum(pixels, clip=1.0, sigma=2.0)
        show(folder, number, output)
        candidates = candidates / 2 + output
    (folder / "result").write_text(json.dumps(candidates.tolist()))


def show(folder: Path, number: int, output: torch.Tensor) -> None:
    """What a process was shown, on disk before anything else happens."""
    with (folder / "shown").open("a") as file:
        file.write(json.dumps([os.getpid(), number, output.tolist()]) + "\n")


def in_a_child(work: Work, folder: Path, at: int = -1, after: bool = False) -> bool:
    """Run to the end, or die as by kill -9 at touch `at` of the disk; whether it got through."""
    child = os.fork()
    if not child:
        code = 1
        try:
            torch.set_num_threads(1)
            with dying(at, after=after, die=partial(os._exit, KILLED)):
                work(open_door(folder, *SUMS), folder)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED)
    return code == 0


def check_exactly_once(folder: Path) -> None:
    """Charged once, every round shown with one noise, and the result is that of one run."""
    entries = read_ledger(folder / "ledger.jsonl")
    assert spent_uses(entries) == {planned.name: 1 for planned in SUMS}
    journal = Journal.open(folder)
    kept = [journal.output(planned.name, 0) for planned in SUMS]
    journal.release_lock()
    assert len(kept) == ROUNDS
    candidates = torch.zeros(16)
    for output in kept:
        assert output is not None
        candidates = candidates / 2 + output.tensors["output"]
    assert json.loads((folder / "result").read_text()) == candidates.tolist(), (
        "an output was given back twice, or not at all"
    )
    for line in (folder / "shown").read_text().splitlines():
        _, number, shown = json.loads(line)
        output = kept[number]
        assert output is not None
        assert shown == output.tensors["output"].tolist(), "noise was drawn again"


@pytest.mark.parametrize("work", [evolve, forget], ids=lambda w: w.__name__)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_point_and_resumed(tmp_path: Path, work: Work, after: bool) -> None:
    """At every touch of the disk, before it or right after it."""
    stride = 1 if os.environ.get("UNDERSTUDY_AUDIT") == "1" else 3
    at, through = 0, False
    while not through:
        folder = tmp_path / str(at)
        through = in_a_child(work, folder, at, after)
        assert through or in_a_child(work, folder)
        check_exactly_once(folder)
        at += stride
    assert at > 20


def test_killed_twice_in_a_row(tmp_path: Path) -> None:
    """Also while what an earlier death left is settled."""
    for at in range(5, 80, 11):
        folder = tmp_path / str(at)
        in_a_child(evolve, folder, at)
        in_a_child(evolve, folder, at // 2)
        assert in_a_child(evolve, folder)
        check_exactly_once(folder)


def door_after(folder: Path, before: Door) -> Door:
    leave(before)
    return open_door(folder)


def ask(door: Door) -> torch.Tensor:
    return enter(door, records(9)).noisy_sum(pixels, clip=1.0, sigma=2.0)


def test_what_a_state_had_seen_is_not_given_again_and_the_rest_is_in_order(tmp_path: Path) -> None:
    door = open_door(tmp_path, *SUMS)
    outputs = [ask(door)]
    door.checkpoint(lambda: State(values={"done": 1}))
    outputs += [ask(door), ask(door)]
    again = door_after(tmp_path, door)
    assert again.restore() == State(values={"done": 1})
    assert torch.equal(ask(again), outputs[1])
    assert torch.equal(ask(again), outputs[2])
    with pytest.raises(PrivacyError, match="unspent"):
        ask(again)
    assert kinds(tmp_path) == ["plan", *["reserve", "commit"] * 3]


def test_a_state_of_a_replay_has_seen_only_what_was_given(tmp_path: Path) -> None:
    """Two releases are committed; the process that goes on has been given one of them."""
    door = open_door(tmp_path, *SUMS)
    outputs = [ask(door), ask(door)]
    second = door_after(tmp_path, door)
    assert torch.equal(ask(second), outputs[0])
    second.checkpoint(lambda: State(values={"done": 1}))
    third = door_after(tmp_path, second)
    assert third.restore() == State(values={"done": 1})
    assert torch.equal(ask(third), outputs[1]), "an output was lost"


def test_a_state_that_is_staged_before_a_replay_has_not_seen_it(tmp_path: Path) -> None:
    """Steps wait in an open block while an older output is given back; then the process ends."""
    sgd = DPSGD("sgd", steps=4, rate=0.5, clip=1.0, sigma=1.0)
    door = open_door(tmp_path, *SUMS, sgd)
    first = ask(door)
    second, model = door_after(tmp_path, door), mlp()
    session = enter(second, records(9)).dp_sgd(second.plan, [model], classify)
    session.step()
    second.checkpoint(lambda: State(values={"steps": 1}))
    assert torch.equal(ask(second), first)
    second.abandon()
    third = door_after(tmp_path, second)
    assert third.restore() == State(values={"steps": 1})
    assert torch.equal(ask(third), first), "an output was lost"


def test_restoring_late_gives_nothing_twice(tmp_path: Path) -> None:
    """As a method that asks for its histogram first and then looks for a state to go on from."""
    door = open_door(tmp_path, *SUMS)
    outputs = [ask(door), ask(door)]
    door.checkpoint(lambda: State(values={"done": 2}))
    again = door_after(tmp_path, door)
    assert torch.equal(ask(again), outputs[0])
    again.restore()
    again.restore()
    fresh = ask(again)
    assert not any(torch.equal(fresh, output) for output in outputs)


def test_a_method_that_does_not_restore_gets_all_outputs(tmp_path: Path) -> None:
    door = open_door(tmp_path, *SUMS)
    outputs = []
    for _ in range(ROUNDS):
        outputs.append(ask(door))
        door.checkpoint(State)
    again = door_after(tmp_path, door)
    assert all(torch.equal(ask(again), output) for output in outputs)


def test_the_newest_state_counts_whichever_way_it_was_kept(tmp_path: Path) -> None:
    """Steps and releases in turn: a block's state, one between blocks, a block's again."""
    sgd = DPSGD("sgd", steps=4, rate=0.5, clip=1.0, sigma=1.0)
    door = open_door(tmp_path, *SUMS, sgd)
    model, one_by_one = mlp(), Speed(backend="vmap", block_steps=1)
    private = enter(door, records(9))
    session = private.dp_sgd(door.plan, [model], classify, speed=one_by_one)
    for number in range(2):
        session.step()
        door.checkpoint(partial(State, {}, {"steps": number + 1}))
        assert door.restore() == State(values={"steps": number + 1})
        ask(door)
        assert door.restore() == State(values={"steps": number + 1})
        door.checkpoint(partial(State, {}, {"sums": number + 1}))
        assert door.restore() == State(values={"sums": number + 1})
    states = list((tmp_path / "checkpoints").rglob("method.json"))
    assert len(states) == 1, "states that newer ones replace are kept"
    again = door_after(tmp_path, door)
    again.restore()
    assert again.spent(sgd) == 2


def test_steps_go_on_with_outputs_that_their_state_had_seen(tmp_path: Path) -> None:
    histogram = NoisyHistogram("bins", bins=3, sigma=2.0)
    sgd = DPSGD("sgd", steps=4, rate=0.5, clip=1.0, sigma=1.0)
    door = open_door(tmp_path, histogram, sgd)
    private, model = enter(door, records(9)), mlp()
    private.noisy_histogram(lambda b: b.labels, bins=3, sigma=2.0)
    session = private.dp_sgd(door.plan, [model], classify, speed=Speed(block_steps=1))
    session.step()
    door.checkpoint(snapshot_of(model))
    again = door_after(tmp_path, door)
    again.restore()
    with pytest.raises(PrivacyError, match="unspent"):
        enter(again, records(9)).noisy_histogram(lambda b: b.labels, bins=3, sigma=2.0)


def test_a_state_of_version_0_1_has_seen_nothing(tmp_path: Path) -> None:
    door = open_door(tmp_path, *SUMS)
    first = ask(door)
    door.checkpoint(lambda: State(values={"done": 1}))
    for file in tmp_path.rglob("door.*"):
        file.unlink()
    again = door_after(tmp_path, door)
    assert again.restore() == State(values={"done": 1})
    assert torch.equal(ask(again), first)


def test_a_state_that_cannot_be_taken_leaves_the_one_before(tmp_path: Path) -> None:
    door = open_door(tmp_path, *SUMS)
    ask(door)
    door.checkpoint(lambda: State(values={"done": 1}))

    def broken() -> State:
        raise ValueError("a snapshot that fails")

    with pytest.raises(ValueError, match="a snapshot"):
        door.checkpoint(broken)
    assert door_after(tmp_path, door).restore() == State(values={"done": 1})


def test_a_callback_on_records_keeps_no_state(tmp_path: Path) -> None:
    door = open_door(tmp_path, *SUMS)

    def keeping(batch: Batch) -> torch.Tensor:
        if kinds(tmp_path)[-1] == "reserve":  # on private records, not in a trial
            door.checkpoint(lambda: State({"seen": batch.features}))
        return pixels(batch)

    with pytest.raises(RunFailed, match="outside callbacks"):
        enter(door, records(9)).noisy_sum(keeping, clip=1.0, sigma=2.0)
    assert not list(tmp_path.rglob("method.*"))


def test_a_state_of_another_ledger_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        door = open_door(tmp_path / name, *SUMS)
        ask(door)
        door.checkpoint(State)
        leave(door)
    kept = tmp_path / "one" / "checkpoints" / "state-000000"
    (tmp_path / "two" / "checkpoints" / "state-000000").rename(kept.with_name("state-000001"))
    with pytest.raises(PrivacyError, match="state-000001 does not belong to this ledger"):
        open_door(tmp_path / "one").restore()


def test_what_the_door_keeps_is_for_the_owner_alone(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, open_door(tmp_path / "other", *SUMS).plan, {})
    sealed = {"models": State({"weight": torch.ones(2)}, {"shards": 3})}
    kept = Checkpoint(State({"mine": torch.zeros(1)}, {"done": 1}), {"round 0": 0}, sealed)
    journal.keep(kept)
    found = journal.checkpoint()
    assert found is not None
    assert (found.method.values, found.seen) == (kept.method.values, kept.seen)
    assert torch.equal(found.sealed["models"].tensors["weight"], torch.ones(2))
    assert found.sealed["models"].values == {"shards": 3}
    for file in tmp_path.rglob("door.*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_state_is_not_kept_beside_an_open_block(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, open_door(tmp_path / "other", *SUMS).plan, {})
    journal.reserve("round 0", 1)
    with pytest.raises(PrivacyError, match="still open"):
        journal.keep(Checkpoint(State()))
