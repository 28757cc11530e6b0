"""Clipped aggregates: who joins, how far a sample can move one, and what a method sees of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.rig import (
    Silence,
    enter,
    fits_noise,
    frozen,
    handle,
    kinds,
    leave,
    open_door,
    records,
    vectors,
)
from understudy.audit.sampling_tests import joined_by_poisson
from understudy.errors import PrivacyError, RunFailed, UserError
from understudy.privacy.door import aggregate as aggregate_module
from understudy.privacy.door.aggregate import AggregateSession
from understudy.privacy.door.batch import TRIAL_ROWS, Batch
from understudy.privacy.door.handles import make_handles
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.door.steps import MOST_STEPS
from understudy.privacy.dpsgd.loss import Models, Values
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.owner_log import read_owner_log
from understudy.privacy.ledger.state import State
from understudy.privacy.ledger.story import spent_events, spent_uses
from understudy.privacy.plan.events import PoissonGaussian
from understudy.privacy.plan.mechanisms import ClippedAggregate
from understudy.privacy.team.summation import TeamSummation
from understudy.privacy.team.team import Team

UNITS, RATE = 24, 0.25
PLANNED = ClippedAggregate("critic", steps=5, rate=0.5, clip=2.0, sigma=3.0)


@dataclass(frozen=True)
class Summed:
    """The sum of the sample's features: any aggregate is one that the clip bounds."""

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del models, values
        return batch.features.flatten(1).sum(dim=0)


@dataclass(frozen=True)
class Pulled:
    """A critic's gradient with respect to generated inputs, which mixes all records."""

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        made = values["made"].requires_grad_()
        scores = models[0](made).mean() - models[0](batch.features.flatten(1)).mean()
        (found,) = torch.autograd.grad(scores * models[0](made).sum(), made)
        return found


def session_of(
    private: PrivateRecords, aggregate: Callable[..., torch.Tensor], *shape: int
) -> AggregateSession:
    return private.clipped_aggregate(aggregate, shape)


def step(session: AggregateSession) -> torch.Tensor:
    released = session.step()
    session._door.checkpoint(State)
    return released


def spent(folder: Path) -> dict[str, int]:
    return spent_uses(read_ledger(folder / "ledger.jsonl"))


# What comes out


def test_a_step_releases_the_aggregate_clipped_as_a_whole(tmp_path: Path) -> None:
    private = handle(tmp_path, vectors(np.full((9, 4), 1e3)), PLANNED, noise=Silence())
    released = step(session_of(private, Summed(), 4))
    assert released.tolist() == pytest.approx([1.0] * 4), "a vector of norm two, along all ones"


def test_a_short_aggregate_is_not_lengthened(tmp_path: Path) -> None:
    private = handle(tmp_path, vectors(np.full((4, 1), 0.25)), PLANNED, noise=Silence())
    assert step(session_of(private, Summed(), 1)).tolist() == [1.0]


@pytest.mark.parametrize("poison", [np.nan, np.inf, 3e38])
def test_what_is_no_number_adds_nothing(tmp_path: Path, poison: float) -> None:
    private = handle(tmp_path, vectors(np.full((9, 4), poison)), PLANNED, noise=Silence())
    assert step(session_of(private, Summed(), 4)).tolist() == [0.0] * 4


@pytest.mark.parametrize("count", [0, 1, 300])
def test_a_step_has_the_planned_noise_whoever_joins(tmp_path: Path, count: int) -> None:
    """Nobody at all too: an empty sample's aggregate is zero, with the same noise."""
    wide = 20_000
    planned = ClippedAggregate("critic", steps=1, rate=0.5, clip=2.0, sigma=3.0)

    @frozen
    def nothing(models: Models, batch: Batch) -> torch.Tensor:
        del models
        assert len(batch), "an empty sample was handed over"
        return torch.zeros(wide)

    private = handle(tmp_path, records(count), planned, count=300)
    noise = step(session_of(private, nothing, wide)).double().numpy()
    assert fits_noise(noise, 3.0 * 2 * 2.0), "not the planned noise"
    for factor in (0.5, 0.95, 1.05):
        assert not fits_noise(noise, factor * 3.0 * 2 * 2.0)


def test_units_join_by_poisson_sampling_at_the_planned_rate(tmp_path: Path) -> None:
    planned = ClippedAggregate("critic", steps=400, rate=RATE, clip=10.0, sigma=1e-4)
    session = session_of(
        handle(tmp_path, vectors(np.eye(UNITS)), planned, count=2 * UNITS), Summed(), UNITS
    )
    rows = [step(session) > 0.5 for _ in session.steps()]
    assert joined_by_poisson(torch.stack(rows).numpy(), RATE), "not Poisson sampling"
    assert not joined_by_poisson(torch.stack(rows).numpy(), 1.2 * RATE)


def test_a_person_joins_with_all_records(tmp_path: Path) -> None:
    """Features say whose a record is: a person's are all in a sample, or none."""
    people = ["ann"] * 3 + ["bob"] + ["cy"] * 2
    planned = ClippedAggregate("critic", steps=40, rate=0.5, clip=10.0, sigma=1e-5)
    own = np.repeat(np.eye(3), [3, 1, 2], axis=0)
    session = session_of(handle(tmp_path, vectors(own, people), planned), Summed(), 3)
    counts = torch.stack([step(session).round() for _ in session.steps()])
    for column, size in zip(counts.T, (3, 1, 2), strict=True):
        assert set(column.tolist()) == {0.0, float(size)}


def test_a_critic_may_mix_the_records_of_a_sample(tmp_path: Path) -> None:
    private = handle(tmp_path, records(12), PLANNED)
    critic = nn.Sequential(nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 1))
    session = private.clipped_aggregate(Pulled(), (7, 16), [critic])
    for _ in session.steps():
        assert session.step({"made": torch.rand(7, 16)}).shape == (7, 16)
        private._door.checkpoint(State)
    assert spent(tmp_path) == {"critic": 5}


# What is charged


def test_every_step_is_charged_as_a_sampled_gaussian(tmp_path: Path) -> None:
    session = session_of(handle(tmp_path, records(12), PLANNED), Summed(), 16)
    assert [number for number in session.steps() if step(session).numel()] == [0, 1, 2, 3, 4]
    events = spent_events(read_ledger(tmp_path / "ledger.jsonl"))
    assert events == (PoissonGaussian(3.0, 0.5, 5),)
    with pytest.raises(PrivacyError, match="beyond the plan"):
        session.step()


def test_steps_are_committed_in_blocks_and_gone_on_with(tmp_path: Path) -> None:
    session = session_of(handle(tmp_path, records(12), PLANNED), Summed(), 16)
    for number in range(3):
        session.step()
        session._door.checkpoint(lambda number=number: State(values={"done": number + 1}))
    session._door.settle()
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]
    leave(session._door)
    door = open_door(tmp_path)
    assert door.restore() == State(values={"done": 3})
    again = session_of(enter(door, records(12)), Summed(), 16)
    assert [number for number in again.steps() if step(again).numel()] == [3, 4]
    assert spent(tmp_path) == {"critic": 5}


@dataclass(frozen=True)
class Weighted:
    """An aggregate whose table somebody could change in place."""

    table: torch.Tensor

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del models, values
        return batch.features.sum() * self.table


def test_an_aggregate_that_is_turned_within_a_block_ends_the_run(tmp_path: Path) -> None:
    """What it then computed nobody had tried: nothing of that block is committed."""
    aggregate = Weighted(torch.ones(2))
    session = session_of(handle(tmp_path, records(12), PLANNED), aggregate, 2)
    step(session)
    aggregate.table.mul_(2)
    session.step()
    session._door.checkpoint(State)
    with pytest.raises(RunFailed, match="changed after it was checked"):
        session._door.settle()
    assert kinds(tmp_path) == ["plan", "reserve", "fail"]


@pytest.mark.parametrize("error", [MemoryError, torch.OutOfMemoryError])
def test_memory_that_a_sample_is_too_large_for_ends_the_run(
    tmp_path: Path, error: type[Exception]
) -> None:
    """Resumed, it would draw anew until a sample is small enough: that is no Poisson sample."""

    @frozen
    def greedy(models: Models, batch: Batch) -> torch.Tensor:
        del models
        if bool((batch.features == 7).any()):
            raise error("no room")
        return batch.features.sum(dim=0)

    data = vectors(np.full((12, 4), 7.0))
    session = session_of(handle(tmp_path, data, PLANNED, noise=Silence()), greedy, 4)
    with pytest.raises(RunFailed, match="no room"):
        session.step()
    assert kinds(tmp_path) == ["plan", "reserve", "fail"]


def test_how_long_a_block_is_does_not_follow_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger shows blocks; a clock that only private samples move must leave no trace there."""
    now = [0.0]
    monkeypatch.setattr(aggregate_module.time, "perf_counter", lambda: now[0])

    @frozen
    def slow(models: Models, batch: Batch) -> torch.Tensor:
        del models
        if bool((batch.features == 7).any()):
            now[0] += 10.0
        return batch.features.sum(dim=0)

    many = ClippedAggregate("critic", steps=MOST_STEPS + 10, rate=0.5, clip=2.0, sigma=3.0)
    session = session_of(handle(tmp_path, vectors(np.full((12, 4), 7.0)), many), slow, 4)
    for _ in session.steps():
        step(session)
    assert now[0] > 100, "private samples were slow"
    blocks = [e.body["uses"] for e in read_ledger(tmp_path / "ledger.jsonl") if e.kind == "reserve"]
    assert blocks == [MOST_STEPS, 10], "blocks tell how long private samples took"


def test_a_step_must_be_followed_by_a_checkpoint(tmp_path: Path) -> None:
    session = session_of(handle(tmp_path, records(12), PLANNED), Summed(), 16)
    session.step()
    with pytest.raises(PrivacyError, match="after every step"):
        session.step()


def test_the_size_of_a_sample_is_for_the_owner_alone(tmp_path: Path) -> None:
    private = handle(tmp_path, records(12), PLANNED, noise=Silence())
    session = session_of(private, Summed(), 16)
    for _ in session.steps():
        step(session)
    rows = list(read_owner_log(tmp_path / "owner.jsonl"))
    assert [row["units"] for row in rows] == [12] * 5
    told = [entry.body for entry in read_ledger(tmp_path / "ledger.jsonl")[1:]]
    assert all(set(body) == {"block", "mechanism", "uses"} for body in told)
    assert session.expected_batch == 6.0


# Mistakes


@frozen
def as_many_as_records(models: Models, batch: Batch) -> torch.Tensor:
    del models
    return batch.features.flatten(1)


@dataclass(frozen=True)
class NeedsMany:
    least: int

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del models, values
        if len(batch) < self.least:
            raise ValueError("too few")
        return batch.features.flatten(1).sum(dim=0)


def test_another_shape_is_refused_before_it_is_charged(tmp_path: Path) -> None:
    session = session_of(handle(tmp_path, records(12), PLANNED), as_many_as_records, 16)
    with pytest.raises(PrivacyError, match=r"shape \[1, 16\]; it must be \[16\]"):
        session.step()
    assert kinds(tmp_path) == ["plan"]


@pytest.mark.parametrize("least", [2, TRIAL_ROWS])
def test_one_that_needs_more_records_is_refused_before_it_is_charged(
    tmp_path: Path, least: int
) -> None:
    session = session_of(handle(tmp_path, records(12), PLANNED), NeedsMany(least), 16)
    with pytest.raises(UserError, match="could fail on private ones: ValueError: too few"):
        session.step()
    assert kinds(tmp_path) == ["plan"]


def test_one_that_fails_on_private_records_ends_the_run(tmp_path: Path) -> None:
    @frozen
    def failing(models: Models, batch: Batch) -> torch.Tensor:
        del models
        if len(batch) == 12:
            raise ValueError("a sample of twelve")
        return torch.zeros(1)

    private = handle(tmp_path, records(12), PLANNED, count=40, noise=Silence())
    with pytest.raises(RunFailed):
        session_of(private, failing, 1).step()
    assert kinds(tmp_path)[-1] == "fail"


def test_one_that_can_change_later_is_refused(tmp_path: Path) -> None:
    def plain(models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del models, values
        return batch.features.sum()

    with pytest.raises(UserError, match="the aggregate 'plain' can change after it was checked"):
        session_of(handle(tmp_path, records(12), PLANNED), plain, 1)


def test_what_it_writes_into_models_and_values_reaches_no_method(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Writing:
        def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
            critic = models[0]
            assert isinstance(critic, nn.Linear)
            with torch.no_grad():
                critic.weight.copy_(batch.features.flatten(1).mean(dim=0))
            critic.seen = batch.features  # type: ignore[assignment]
            values["made"].copy_(batch.features.flatten(1).mean(dim=0))
            torch.rand(3)
            return torch.zeros(1)

    private, critic = handle(tmp_path, records(12), PLANNED), nn.Linear(16, 1)
    before, made = critic.weight.detach().clone(), torch.zeros(16)
    session = private.clipped_aggregate(Writing(), (1,), [critic])
    torch.manual_seed(5)
    session.step({"made": made})
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1)), "it moved the method's generator"
    assert torch.equal(critic.weight, before)
    assert torch.equal(made, torch.zeros(16))
    assert not hasattr(critic, "seen")


def test_what_is_not_planned_is_refused(tmp_path: Path) -> None:
    private = handle(tmp_path, records(12), PLANNED)
    with pytest.raises(PrivacyError, match="no unspent clipped-aggregate"):
        private.clipped_aggregate(Summed(), (16,), name="another")


def test_a_team_refuses_it_by_name(tmp_path: Path) -> None:
    door = open_door(tmp_path, PLANNED)
    summation = TeamSummation(Team(0, 2))
    parts, counts = {"train": records(12)}, {"train": 12}
    private = make_handles(door, parts, counts, {"train": summation})["train"]
    with pytest.raises(UserError, match="a clipped aggregate is fitted by one process"):
        session_of(private, Summed(), 16)
