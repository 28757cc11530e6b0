"""Ensembles in rounds: every shard learns in every round, from its own records, and is kept."""

from __future__ import annotations

import json
import math
import os
import stat
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.ledger.deaths import dying
from tests.privacy.rig import enter, fits_noise, handle, kinds, leave, open_door, records, vectors
from understudy.audit.doors import DoorCase
from understudy.audit.neighbours import WIDTH, opposites, people, random_neighbours
from understudy.audit.sensitivity import ROUNDING, farthest, moves_of
from understudy.errors import PrivacyError, RunFailed, UserError
from understudy.privacy.door.batch import TRIAL_ROWS, Batch
from understudy.privacy.door.door import Door
from understudy.privacy.door.ensemble import Ensemble
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.dpsgd.loss import Values
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.state import State
from understudy.privacy.ledger.story import spent_uses
from understudy.privacy.plan.mechanisms import (
    EnsembleGradients,
    EnsembleVotes,
    OneOfShardsGradients,
)

SHARDS, ROUNDS = 3, 3
VOTES = EnsembleVotes("votes", shards=SHARDS, queries=20, sigma=3.0)
ONE = OneOfShardsGradients("one", shards=SHARDS, steps=ROUNDS, clip=1.0, sigma=3.0)
TRIED = (1, TRIAL_ROWS)
KILLED = 9


class Learner(nn.Module):
    """Learns the sum of its shard's features again in every round, plus what was released."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        width = batch.features.flatten(1).shape[1]
        self.learnt = nn.Parameter(torch.zeros(width))
        self.register_buffer("rounds", torch.zeros((), dtype=torch.int64))
        self.rounds: torch.Tensor

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        towards = (inputs.flatten(1) * self.learnt).sum(dim=1, keepdim=True)
        return towards * torch.tensor([1.0, 0.0, -1.0])


def learn(model: nn.Module, batch: Batch, values: Values) -> None:
    assert isinstance(model, Learner)
    with torch.no_grad():
        model.learnt += torch.nan_to_num(batch.features.flatten(1)).sign().sum(dim=0)
        model.learnt += values.get("released", 0.0)
        model.rounds += 1


def pull(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    assert isinstance(model, Learner)
    return (inputs * model.learnt).sum()


def learners(ensemble: Ensemble) -> list[Learner]:
    return [model for model in ensemble._models if isinstance(model, Learner)]


def learnt(ensemble: Ensemble) -> list[list[float]]:
    return [model.learnt.tolist() for model in learners(ensemble)]


# A round


def test_every_shard_learns_in_every_round_from_all_its_records(tmp_path: Path) -> None:
    data = vectors(np.eye(12))
    ensemble = handle(tmp_path, data, VOTES).ensemble(SHARDS, Learner)
    for number in (1, 2):
        ensemble.advance(learn)
        assert torch.tensor(learnt(ensemble)).sum(dim=0).tolist() == [float(number)] * 12
        assert {int(model.rounds) for model in learners(ensemble)} == {number}
    assert ensemble.rounds == 2
    assert kinds(tmp_path) == ["plan"], "a round is charged"


def test_a_round_is_given_what_was_released(tmp_path: Path) -> None:
    ensemble = handle(tmp_path, vectors(np.zeros((12, 4))), VOTES).ensemble(SHARDS, Learner)
    ensemble.advance(learn, {"released": torch.arange(4.0)})
    assert {tuple(one) for one in learnt(ensemble)} == {(0.0, 1.0, 2.0, 3.0)}


def test_no_shard_reaches_another_by_the_values(tmp_path: Path) -> None:
    def writing(model: nn.Module, batch: Batch, values: Values) -> None:
        learn(model, batch, values)
        values["released"].add_(batch.features.flatten(1).sum(dim=0))

    released = torch.zeros(12)
    ensemble = handle(tmp_path, vectors(np.eye(12)), VOTES).ensemble(SHARDS, Learner)
    ensemble.advance(writing, {"released": released})
    found = torch.tensor(learnt(ensemble))
    assert found.sum(dim=0).tolist() == [1.0] * 12, "a shard's records reached another's model"
    assert torch.equal(released, torch.zeros(12)), "a shard's records reached the method"


def test_a_round_leaves_the_generators_alone(tmp_path: Path) -> None:
    def drawing(model: nn.Module, batch: Batch, values: Values) -> None:
        learn(model, batch, values)
        torch.rand(len(batch))

    ensemble = handle(tmp_path, records(40), VOTES).ensemble(SHARDS, Learner)
    torch.manual_seed(1)
    ensemble.advance(drawing)
    after = torch.rand(1).item()
    torch.manual_seed(1)
    assert after == torch.rand(1).item()


# How far one unit moves what comes out after rounds


def in_rounds(private: PrivateRecords) -> Ensemble:
    ensemble = private.ensemble(2, Learner)
    for _ in range(2):
        ensemble.advance(learn)
    return ensemble


def voted(private: PrivateRecords) -> torch.Tensor:
    return in_rounds(private).noisy_votes(torch.eye(WIDTH)[:1])


def pulled(private: PrivateRecords) -> torch.Tensor:
    return in_rounds(private).noisy_gradients(torch.eye(WIDTH), lambda m, x: 1e3 * pull(m, x))


@pytest.mark.parametrize(
    "case",
    [
        DoorCase("votes", EnsembleVotes("m", 2, 1, 1.0), math.sqrt(2), voted),
        DoorCase("gradients", EnsembleGradients("m", 2, 1, 0.5, 1.0), 1.0, pulled),
    ],
    ids=lambda c: c.name,
)
def test_one_unit_moves_an_answer_after_rounds_no_further_than_declared(case: DoorCase) -> None:
    pairs = [*opposites(), *random_neighbours(10, seed=1), *people()]
    worst = farthest(moves_of(case, pairs))
    assert worst.distance <= case.sensitivity * (1 + ROUNDING), f"moved too far by {worst.name}"
    assert worst.distance >= 0.99 * case.sensitivity


def test_the_noise_after_rounds_is_that_of_the_sensitivity(tmp_path: Path) -> None:
    planned = EnsembleVotes("votes", shards=SHARDS, queries=3000, sigma=3.0)
    ensemble = handle(tmp_path, records(0), planned, count=40).ensemble(SHARDS, Learner)
    ensemble.advance(learn)
    noise = ensemble.noisy_votes(torch.zeros(3000, 16)).double().flatten().numpy()
    assert fits_noise(noise, 3.0 * math.sqrt(2))
    assert not fits_noise(noise, 3.0)


# Going on


def play(door: Door, result: Path | None = None) -> Ensemble:
    """Rounds and steps by turns, as a method plays them; goes on from what was kept."""
    private, state = enter(door, vectors(np.eye(12))), door.restore()
    ensemble = private.ensemble(SHARDS, Learner)
    session = ensemble.gradients_of_one(pull)
    done = 0 if state is None else int(state.values["done"])
    for number in range(done, ROUNDS):
        ensemble.advance(learn, {"released": torch.full((12,), float(number))})
        session.step(torch.zeros(1, 12))
        door.checkpoint(partial(State, {}, {"done": number + 1}))
    if result is not None:
        door.settle()
        result.write_text(json.dumps(learnt(ensemble)))
    return ensemble


def in_a_child(folder: Path, at: int = -1) -> bool:
    child = os.fork()
    if not child:
        code = 1
        try:
            torch.set_num_threads(1)
            with dying(at, after=False, die=partial(os._exit, KILLED)):
                play(open_door(folder, ONE), folder / "result")
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED)
    return code == 0


def test_killed_at_any_point_the_rounds_are_those_of_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of one step, so that there is something to go on from."""
    monkeypatch.setattr("understudy.privacy.door.one_of_shards.MOST_STEPS", 1)
    whole = learnt(play(open_door(tmp_path / "whole", ONE)))
    stride = 1 if os.environ.get("UNDERSTUDY_AUDIT") == "1" else 2
    at, through = 0, False
    while not through:
        folder = tmp_path / str(at)
        through = in_a_child(folder, at)
        assert through or in_a_child(folder)
        assert json.loads((folder / "result").read_text()) == whole, "rounds were lost or repeated"
        ledger = read_ledger(folder / "ledger.jsonl")
        assert spent_uses(ledger) == {"one": ROUNDS}
        at += stride
    assert at > 20


@pytest.mark.parametrize("early", [True, False], ids=["restored first", "created first"])
def test_models_come_back_whether_restored_before_or_after_they_are_made(
    tmp_path: Path, early: bool
) -> None:
    private = handle(tmp_path, vectors(np.eye(12)), VOTES)
    ensemble = private.ensemble(SHARDS, Learner)
    ensemble.advance(learn)
    ensemble.advance(learn)
    private._door.checkpoint(lambda: State(values={"done": 2}))
    ensemble.advance(learn)
    leave(private._door)
    door = open_door(tmp_path)
    if early:
        door.restore()
    again = enter(door, vectors(np.eye(12))).ensemble(SHARDS, Learner)
    assert again.rounds == (2 if early else 0)
    assert door.restore() == State(values={"done": 2})
    assert again.rounds == 2
    assert torch.tensor(learnt(again)).sum(dim=0).tolist() == [2.0] * 12
    again.advance(learn)
    assert learnt(again) == learnt(ensemble)


def test_empty_shards_stay_empty_after_a_restart(tmp_path: Path) -> None:
    private = handle(tmp_path, vectors(np.eye(12)[:1]), VOTES, count=12)
    private.ensemble(SHARDS, Learner).advance(learn)
    private._door.checkpoint(State)
    leave(private._door)
    door = open_door(tmp_path)
    door.restore()
    again = enter(door, vectors(np.eye(12)[:1]), 12).ensemble(SHARDS, Learner)
    assert [model is None for model in again._of_shard].count(True) == SHARDS - 1


def test_models_are_in_the_doors_part_of_a_checkpoint_alone(tmp_path: Path) -> None:
    private = handle(tmp_path, vectors(np.eye(12)), VOTES)
    ensemble = private.ensemble(SHARDS, Learner)
    ensemble.advance(learn)
    private._door.checkpoint(lambda: State({"mine": torch.ones(2)}, {"done": 1}))
    state = private._door.restore()
    assert state is not None
    assert set(state.tensors) == {"mine"}, "models reach the method"
    assert set(state.values) == {"done"}
    (sealed,) = tmp_path.rglob("door.safetensors")
    assert b"learnt" in sealed.read_bytes()
    assert stat.S_IMODE(sealed.stat().st_mode) == 0o600
    holding = [p for p in tmp_path.rglob("*") if p.is_file() and b"learnt" in p.read_bytes()]
    assert holding == [sealed]


def test_an_ensemble_without_rounds_is_in_no_checkpoint(tmp_path: Path) -> None:
    private = handle(tmp_path, vectors(np.eye(12)), VOTES)
    ensemble = private.ensemble(SHARDS, Learner)
    private._door.checkpoint(State)
    assert not any(b"learnt" in p.read_bytes() for p in tmp_path.rglob("door.*"))
    assert ensemble.rounds == 0


def test_a_round_that_is_cut_short_is_in_no_checkpoint(tmp_path: Path) -> None:
    """Ctrl-C amid a round, while a step waits to be committed: the step is charged without it."""
    door = open_door(tmp_path, ONE)
    ensemble = enter(door, vectors(np.eye(12))).ensemble(SHARDS, Learner)
    session = ensemble.gradients_of_one(pull)
    ensemble.advance(learn)
    door.checkpoint(lambda: State(values={"done": 0}))
    session.step(torch.zeros(1, 12))
    door.checkpoint(lambda: State(values={"done": 1}))

    def stopped(model: nn.Module, batch: Batch, values: Values) -> None:
        learn(model, batch, values)
        if len(batch) not in TRIED:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensemble.advance(stopped)
    assert spent_uses(read_ledger(tmp_path / "ledger.jsonl")) == {"one": 1}
    leave(door)
    again = open_door(tmp_path)
    assert again.restore() == State(values={"done": 0})
    kept = enter(again, vectors(np.eye(12))).ensemble(SHARDS, Learner)
    assert {int(model.rounds) for model in learners(kept)} == {1}


def test_models_of_another_ensemble_are_refused(tmp_path: Path) -> None:
    private = handle(tmp_path, vectors(np.eye(12)), VOTES)
    ensemble = private.ensemble(SHARDS, Learner)
    ensemble.advance(learn)
    private._door.checkpoint(State)
    leave(private._door)
    door = open_door(tmp_path)
    door.restore()
    with pytest.raises(PrivacyError, match="the same ensembles under the same names"):
        enter(door, vectors(np.eye(12))).ensemble(SHARDS + 1, Learner)
    assert ensemble.rounds == 1


def test_ensembles_are_known_by_name_whatever_else_is_created(tmp_path: Path) -> None:
    """A resumed method may skip what it needs no more, and checkpoint before it creates."""
    private = handle(tmp_path, vectors(np.eye(12)), VOTES)
    early = private.ensemble(SHARDS, Learner, name="early")
    early.advance(learn)
    del early
    late = private.ensemble(SHARDS, Learner, name="late")
    for _ in range(2):
        late.advance(learn)
    private._door.checkpoint(State)
    for _ in range(2):
        leave(private._door)
        door = open_door(tmp_path)
        door.restore()
        door.checkpoint(State)  # before it is created again
        private = enter(door, vectors(np.eye(12)))
    assert private.ensemble(SHARDS, Learner, name="late").rounds == 2


def test_two_in_rounds_need_two_names(tmp_path: Path) -> None:
    private = handle(tmp_path, vectors(np.eye(12)), VOTES)
    both = [private.ensemble(SHARDS, Learner) for _ in range(2)]
    for ensemble in both:
        ensemble.advance(learn)
    with pytest.raises(PrivacyError, match="two ensembles in rounds are named 'train/ensemble'"):
        private._door.checkpoint(State)


# Mistakes


def ensemble_in(folder: Path) -> Ensemble:
    return handle(folder, vectors(np.eye(40)), VOTES).ensemble(SHARDS, Learner)


@pytest.mark.parametrize("least", [2, TRIAL_ROWS + 1])
def test_an_update_that_needs_more_records_is_refused_beforehand(
    tmp_path: Path, least: int
) -> None:
    def needs_some(model: nn.Module, batch: Batch, values: Values) -> None:
        learn(model, batch, values)
        if len(batch) < least:
            raise ValueError("too few")

    ensemble = ensemble_in(tmp_path)
    with pytest.raises(UserError, match="update fails on a shard of 1 extreme"):
        ensemble.advance(needs_some)
    ensemble.advance(learn)
    assert kinds(tmp_path) == ["plan"]


def test_an_update_that_fails_on_private_records_ends_the_run(tmp_path: Path) -> None:
    def failing(model: nn.Module, batch: Batch, values: Values) -> None:
        learn(model, batch, values)
        if len(batch) not in TRIED:
            raise ValueError("a private shard")

    with pytest.raises(RunFailed, match="a private shard"):
        ensemble_in(tmp_path).advance(failing)
    assert kinds(tmp_path)[-1] == "fail"


@pytest.mark.parametrize("error", [MemoryError, torch.OutOfMemoryError])
def test_memory_that_a_shard_is_too_large_for_ends_the_run(
    tmp_path: Path, error: type[Exception]
) -> None:
    """Resumed, it would go on only where every shard is small enough."""

    def greedy(model: nn.Module, batch: Batch, values: Values) -> None:
        learn(model, batch, values)
        if len(batch) not in TRIED:
            raise error("no room")

    with pytest.raises(RunFailed, match="no room"):
        ensemble_in(tmp_path).advance(greedy)
    assert kinds(tmp_path)[-1] == "fail"


def test_an_update_that_lets_models_share_weights_is_refused(tmp_path: Path) -> None:
    shared: list[nn.Parameter] = []

    def sharing(model: nn.Module, batch: Batch, values: Values) -> None:
        del values
        assert isinstance(model, Learner)
        if len(batch) not in TRIED:
            shared.append(model.learnt)
            model.learnt = shared[0]

    with pytest.raises(RunFailed, match="sharing nothing"):
        ensemble_in(tmp_path).advance(sharing)


def test_models_that_no_checkpoint_could_hold_are_refused(tmp_path: Path) -> None:
    def as_wide_as_its_shard(batch: Batch) -> nn.Module:
        return nn.Linear(len(batch), 3)

    ensemble = handle(tmp_path, records(40), VOTES).ensemble(SHARDS, as_wide_as_its_shard)
    with pytest.raises(UserError, match="models of one form"):
        ensemble.advance(learn)

    def growing(model: nn.Module, batch: Batch, values: Values) -> None:
        learn(model, batch, values)
        model.register_buffer("more", torch.zeros(1))

    with pytest.raises(UserError, match="as they are"):
        ensemble_in(tmp_path / "other").advance(growing)
