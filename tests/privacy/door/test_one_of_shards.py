"""One of K shards: drawn uniformly and in secret, and nothing that is kept tells which it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from tests.privacy.rig import (
    Silence,
    enter,
    fits_noise,
    handle,
    kinds,
    leave,
    open_door,
    records,
    vectors,
)
from understudy.audit.noise_tests import ALPHA
from understudy.audit.probes_of_rounds import Drawn
from understudy.data.records import Records
from understudy.errors import PrivacyError, RunFailed
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.ensemble import Ensemble, make_shards
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.state import State
from understudy.privacy.ledger.story import spent_events, spent_uses
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.events import OneOfShards
from understudy.privacy.plan.mechanisms import OneOfShardsGradients

SHARDS = 5
PLANNED = OneOfShardsGradients("one", shards=SHARDS, steps=4, clip=1.0, sigma=3.0)
MANY = OneOfShardsGradients("one", shards=SHARDS, steps=1500, clip=1.0, sigma=3.0)


class Mean(nn.Module):
    """A model that learned the mean of its shard."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.mean = nn.Parameter(batch.features.flatten(1).mean(dim=0))
        self.calls = 0


def push(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    assert isinstance(model, Mean)
    return (inputs * model.mean).sum()


def told_apart(count: int = 40) -> Records:
    """Records by whose shard's mean the shard is known: one each to one place, but for two."""
    return vectors(np.eye(count))


def ensemble_of(private: PrivateRecords) -> Ensemble:
    return private.ensemble(SHARDS, Mean)


def released(private: PrivateRecords, steps: int, width: int = 40) -> torch.Tensor:
    session, inputs = ensemble_of(private).gradients_of_one(push), torch.zeros(1, width)
    out = []
    for _ in range(steps):
        out.append(session.step(inputs).flatten())
        private._door.checkpoint(State)
    return torch.stack(out)


# What comes out


def shards_read_off(gradients: torch.Tensor, data: Records) -> list[int]:
    """Which shard each gradient is of; none has records that two shards share."""
    shards = make_shards(data, data, SHARDS, b"k" * 32)
    means = [s.features.mean(axis=0) if len(s) else np.zeros(40) for s in shards]
    each = torch.as_tensor(np.stack(means), dtype=torch.float32)
    return [int((each - row).norm(dim=1).argmin()) for row in gradients]


def uniform(counts: list[int]) -> bool:
    return bool(stats.chisquare(counts).pvalue > ALPHA)


def test_every_shard_is_drawn_as_often_as_another_and_independently(tmp_path: Path) -> None:
    data = told_apart()
    drawn = shards_read_off(released(handle(tmp_path, data, MANY, noise=Silence()), 1500), data)
    assert uniform(np.bincount(drawn, minlength=SHARDS).tolist()), "not drawn uniformly"
    following = np.zeros((SHARDS, SHARDS))
    np.add.at(following, (drawn[:-1], drawn[1:]), 1)
    assert stats.chi2_contingency(following).pvalue > ALPHA, "a draw follows from the one before"
    assert not uniform([300, 300, 300, 300, 500])


def test_empty_shards_are_drawn_too_and_answer_zero(tmp_path: Path) -> None:
    """K is the declared number: shards without records make no other likelier."""
    data = told_apart().select([0])
    out = released(handle(tmp_path, data, MANY, count=40, noise=Silence()), 1500)
    answered = int((out.norm(dim=1) > 0).sum())
    assert stats.binomtest(answered, 1500, 1 / SHARDS).pvalue > ALPHA, "empty ones are left out"


@pytest.mark.parametrize("count", [0, 40])
def test_the_noise_is_that_of_twice_the_clip(tmp_path: Path, count: int) -> None:
    planned = OneOfShardsGradients("one", shards=SHARDS, steps=1, clip=2.0, sigma=3.0)
    private = handle(tmp_path, records(count), planned, count=40)
    session = ensemble_of(private).gradients_of_one(lambda _, x: 0.0 * x.sum())
    noise = session.step(torch.zeros(20_000)).double().numpy()
    assert fits_noise(noise, 3.0 * 2 * 2.0), "not the planned noise"
    for factor in (0.5, 0.95, 1.05):
        assert not fits_noise(noise, factor * 3.0 * 2 * 2.0)


def test_a_whole_batch_of_inputs_is_clipped_as_one(tmp_path: Path) -> None:
    private = handle(tmp_path, told_apart(), PLANNED, noise=Drawn(1))

    def loud(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        return 1e6 * push(model, inputs)

    out = ensemble_of(private).gradients_of_one(loud).step(torch.zeros(7, 40))
    assert out.shape == (7, 40)
    assert float(out.double().norm()) == pytest.approx(1.0, rel=1e-6)


# What tells nothing


def everything_kept(folder: Path, shard: int) -> dict[str, object]:
    """All files of a run in which one shard was drawn at every step, but for the plan's name."""
    private = handle(folder, told_apart(), PLANNED, noise=Drawn(shard))
    ensemble = ensemble_of(private)
    session = ensemble.gradients_of_one(push)
    torch.manual_seed(3)
    for _ in session.steps():
        session.step(torch.zeros(1, 40))
        private._door.checkpoint(partial(State, {"method": torch.rand(2)}, {"done": 1}))
        ensemble.advance(shift)
    ledger = [(e.kind, dict(e.body)) for e in read_ledger(folder / "ledger.jsonl")[1:]]
    named = {"ledger.jsonl", "commit.json"}  # their hashes follow from the plan's name
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in named
    }
    return {**files, "ledger": ledger, "models": sealed(ensemble)}


def shift(model: nn.Module, batch: Batch, values: object) -> None:
    """A round that would show if a model had been called more often than another."""
    del values
    assert isinstance(model, Mean)
    with torch.no_grad():
        model.mean += batch.features.flatten(1).mean(dim=0) + model.calls


def sealed(ensemble: Ensemble) -> list[list[float]]:
    state = ensemble.sealed_state()
    assert state is not None
    return [state.tensors[name].tolist() for name in sorted(state.tensors)]


def test_nothing_that_is_kept_tells_which_shard_was_drawn(tmp_path: Path) -> None:
    """Files, owner's log, ledger, the method's generator and the models themselves."""
    one, other = (everything_kept(tmp_path / str(shard), shard) for shard in (0, 1))
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []
    assert "owner.jsonl" not in one


def test_what_a_loss_does_to_the_drawn_model_is_thrown_away(tmp_path: Path) -> None:
    """A model that learned whenever it was drawn would tell that it was."""

    def teaching(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        assert isinstance(model, Mean)
        model.calls += 1
        push(model, torch.ones(1, 40)).backward()
        with torch.no_grad():
            model.mean += 5.0
        return push(model, inputs)

    private = handle(tmp_path, told_apart(), PLANNED)
    ensemble = ensemble_of(private)
    before = [model.mean.tolist() for model in ensemble._models if isinstance(model, Mean)]
    session = ensemble.gradients_of_one(teaching)
    for _ in session.steps():
        session.step(torch.zeros(1, 40))
        private._door.checkpoint(State)
    after = [model for model in ensemble._models if isinstance(model, Mean)]
    assert [model.mean.tolist() for model in after] == before
    assert all(model.calls == 0 and model.mean.grad is None for model in after)


def test_an_empty_shard_is_worked_for_like_another(tmp_path: Path) -> None:
    """Whether a gradient was computed would show in the time that a step takes."""
    calls: list[int] = []

    def counting(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return push(model, inputs)

    private = handle(tmp_path, records(0), PLANNED, count=40)
    session = private.ensemble(SHARDS, Mean).gradients_of_one(counting)
    for number in range(1, 4):
        session.step(torch.zeros(1, 16))
        private._door.checkpoint(State)
        assert len(calls) == number + 3, "once a step, and thrice before the block"


# What is charged


def test_every_step_is_charged_as_one_of_the_declared_shards(tmp_path: Path) -> None:
    private = handle(tmp_path, told_apart(), PLANNED)
    released(private, 4)
    assert spent_events(read_ledger(tmp_path / "ledger.jsonl")) == (OneOfShards(3.0, SHARDS, 4),)
    with pytest.raises(PrivacyError, match="beyond the plan"):
        released(private, 1)


def test_another_number_of_shards_is_not_planned(tmp_path: Path) -> None:
    private = handle(tmp_path, told_apart(), PLANNED)
    with pytest.raises(PrivacyError, match=r"no unspent one-of-shards-gradients\(shards=4\)"):
        private.ensemble(4, Mean).gradients_of_one(push)


def test_steps_go_on_after_a_restart(tmp_path: Path) -> None:
    private = handle(tmp_path, told_apart(), PLANNED)
    released(private, 2)
    private._door.settle()
    leave(private._door)
    door = open_door(tmp_path)
    assert door.restore() == State()
    session = ensemble_of(enter(door, told_apart())).gradients_of_one(push)
    assert [n for n in session.steps() if _stepped(session.step, door.checkpoint)] == [2, 3]
    assert spent_uses(read_ledger(tmp_path / "ledger.jsonl")) == {"one": 4}


def _stepped(
    step: Callable[[torch.Tensor], torch.Tensor], keep: Callable[[Callable[[], State]], None]
) -> bool:
    step(torch.zeros(1, 40))
    keep(State)
    return True


# Mistakes


def test_a_loss_that_fails_does_so_before_it_is_charged(tmp_path: Path) -> None:
    def failing(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        del model, inputs
        raise ValueError("no such loss")

    session = ensemble_of(handle(tmp_path, told_apart(), PLANNED)).gradients_of_one(failing)
    with pytest.raises(ValueError, match="no such loss"):
        session.step(torch.zeros(1, 40))
    assert kinds(tmp_path) == ["plan"]


def test_a_failure_of_the_drawn_model_ends_the_run_and_names_no_shard(tmp_path: Path) -> None:
    def failing(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        if kinds(tmp_path)[-1] == "reserve":
            raise ValueError("this one fails")
        return push(model, inputs)

    session = ensemble_of(handle(tmp_path, told_apart(), PLANNED)).gradients_of_one(failing)
    with pytest.raises(RunFailed) as caught:
        session.step(torch.zeros(1, 40))
    assert "shard" not in str(caught.value)
    assert kinds(tmp_path)[-1] == "fail"


def test_draws_come_from_the_secret_stream(tmp_path: Path) -> None:
    """Never from a generator that the method's seed covers."""
    asked: list[int] = []

    class Watched(NoiseSource):
        def integers(
            self, count: int, below: int, device: torch.device | str = "cpu"
        ) -> torch.Tensor:
            asked.append(below)
            return super().integers(count, below, device)

    released(handle(tmp_path, told_apart(), PLANNED, noise=Watched()), 4)
    assert asked == [SHARDS] * 4
