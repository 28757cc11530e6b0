"""What the ledger charges is what the door did, at real sizes.

Events are read from the ledger on disk. Rate, number, clip and noise are read from what came out,
from who joined and from the owner's log, for 60,000 declared units and 2,048 of them a step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.rig import Noting, Silence, enter, frozen, open_door, vectors
from understudy.audit.noise_tests import Floats, fits_normal
from understudy.audit.sampling_tests import Sizes, sizes_by_poisson
from understudy.errors import PrivacyError
from understudy.methods.contract import Facts
from understudy.methods.dp_gan import DPGan, GanConfig
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.dpsgd.loss import Models
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.owner_log import read_owner_log
from understudy.privacy.ledger.state import State
from understudy.privacy.ledger.story import spent_events
from understudy.privacy.local.gaussian import LocalNoise
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.events import Event, PoissonGaussian
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    EXACT,
    ClippedAggregate,
    EnsembleGradients,
    EnsembleVotes,
    LocalRelease,
    Mechanism,
    NoisyHistogram,
    NoisySum,
    OneOfShardsGradients,
    mechanism_from_json,
    mechanism_to_json,
)
from understudy.privacy.sums.clipping import Blocks

DECLARED, BATCH = 60_000, 2_048
HERE = 58_900
"""Units there really are; nothing but the sums themselves may depend on it."""

STEPS, WIDTH = 600, 120
CLIP, SIGMA = 0.7, 1.3
FAR = 50.0


def charged(folder: Path) -> Event:
    """The one event that the ledger of this run costs."""
    (event,) = spent_events(read_ledger(folder / "ledger.jsonl"))
    return event


@frozen
def along_the_first(models: Models, batch: Batch) -> torch.Tensor:
    """A gradient that lies along the first parameter, as long as the record's feature."""
    first = torch.zeros_like(models[0].weight)
    first[0, 0] = 1.0
    return models[0](batch.features * first).squeeze(1)


@dataclass(frozen=True)
class Training:
    """What was charged for a training, and what happened in it.

    asked: what the noise source was asked for: how many units, at which rate. joined: how many it
    chose, by step. summed: how many the owner's log says were added up. gradients: [steps, WIDTH].
    """

    event: PoissonGaussian
    asked: set[tuple[int, float]]
    joined: Sizes
    summed: Sizes
    gradients: Floats
    one_more: str


def trained(folder: Path) -> Training:
    """All steps of a plan; each unit's gradient is far above the clip."""
    planned = DPSGD("sgd", steps=STEPS, rate=BATCH / DECLARED, clip=CLIP, sigma=SIGMA)
    source = Noting()
    door = open_door(folder, planned, noise=source)
    private = enter(door, vectors(np.full((HERE, 1), FAR)), DECLARED)
    model = nn.Linear(WIDTH, 1, bias=False)
    session = private.dp_sgd(door.plan, [model], along_the_first, speed=Speed(backend="expanded"))
    gradients = []
    for _ in session.steps():
        session.step()
        door.checkpoint(State)
        assert model.weight.grad is not None
        gradients.append(model.weight.grad.reshape(-1).double().numpy())
    event = charged(folder)
    assert isinstance(event, PoissonGaussian)
    return Training(
        event,
        set(source.asked),
        np.array([int(joined.sum()) for joined in source.joined]),
        np.array([row["units"] for row in read_owner_log(folder / "owner.jsonl")]),
        np.stack(gradients),
        refusal(session.step),
    )


def refusal(work: Callable[[], object]) -> str:
    """In which words it is refused; nothing, if it is not."""
    try:
        work()
    except PrivacyError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Training:
    return trained(tmp_path_factory.mktemp("training"))


def test_units_join_at_the_charged_rate(training: Training) -> None:
    """To the last bit in what is asked of the source, and by count in what is added up."""
    assert training.event.rate == BATCH / DECLARED, "another rate is charged than was planned"
    assert training.asked == {(HERE, training.event.rate)}, "units join at another rate"
    assert np.array_equal(training.summed, training.joined), "others are summed than were drawn"
    assert sizes_by_poisson(training.summed, HERE, training.event.rate), "not the charged sampling"


def test_as_many_steps_are_charged_as_are_done(training: Training) -> None:
    assert len(training.gradients) == training.event.count == STEPS, "other steps than are charged"
    assert len(training.joined) == training.event.count
    assert "beyond the plan" in training.one_more


def test_a_step_adds_the_clip_a_unit_and_the_charged_noise(training: Training) -> None:
    """What is left of every sum when a clip is taken off for each unit that joined."""
    rest = training.gradients * BATCH / CLIP
    rest[:, 0] -= training.summed
    assert fits_normal(rest[:, 0], training.event.sigma), "units do not add one clip each"
    assert fits_normal(rest.reshape(-1), training.event.sigma), "not the charged noise"
    for factor in (0.97, 1.03):
        assert not fits_normal(rest.reshape(-1), factor * training.event.sigma)


@pytest.mark.parametrize("off", [0.99, 1.01])
def test_a_rate_that_is_one_percent_off_is_seen(training: Training, off: float) -> None:
    assert not sizes_by_poisson(training.summed, HERE, off * training.event.rate)


def test_sizes_of_other_sampling_are_rejected() -> None:
    rate, rng = BATCH / DECLARED, np.random.default_rng(1)
    sizes = rng.binomial(HERE, rate, STEPS)
    fixed = np.full(STEPS, round(HERE * rate))
    assert sizes_by_poisson(sizes, HERE, rate)
    assert not sizes_by_poisson(fixed, HERE, rate)
    assert not sizes_by_poisson(np.minimum(sizes, fixed + 10), HERE, rate)
    assert not sizes_by_poisson(2 * rng.binomial(HERE // 2, rate, STEPS), HERE, rate)


def test_a_declared_batch_is_charged_as_it_is_declared() -> None:
    """From declared facts to an event, through the plan's text: no figure is rounded on the way."""
    records = vectors(np.zeros((1, 1)))
    facts = Facts(DECLARED, {"train": DECLARED}, (1, 28, 28), records.schema)
    (planned,) = DPGan().spend(GanConfig(batch=BATCH, steps=STEPS), facts)(SIGMA)
    (event,) = mechanism_from_json(mechanism_to_json(planned)).events(STEPS)
    assert event == PoissonGaussian(SIGMA, BATCH / DECLARED, STEPS), "charged by rounded figures"


@pytest.mark.parametrize("width", [10_000, 1_500_000])
def test_a_unit_adds_one_clip_to_a_model_of_any_size(tmp_path: Path, width: int) -> None:
    planned = DPSGD("sgd", steps=1, rate=0.5, clip=CLIP, sigma=SIGMA)
    door = open_door(tmp_path, planned, noise=Silence())
    private = enter(door, vectors(np.full((3, 1), FAR)), 4)
    model = nn.Linear(width, 1, bias=False)
    session = private.dp_sgd(door.plan, [model], along_the_first, speed=Speed(backend="expanded"))
    session.step()
    door.checkpoint(State)
    assert model.weight.grad is not None
    added = float(model.weight.grad.double().norm()) * session.expected_batch / 3
    assert added == pytest.approx(CLIP, rel=1e-5), "a unit adds another length than the clip"


Work = Callable[[PrivateRecords], torch.Tensor]
"""All uses of a mechanism: [uses, values], or [records, values] where every record leaves."""


@dataclass(frozen=True)
class Case:
    """A mechanism of which every use is over all units, and how it is used.

    moved: a record that, put in the place of the last one, moves the answer as far as one can.
    added: whether it is added instead, which then is what the sensitivity speaks of.
    """

    mechanism: Mechanism
    work: Work
    moved: float
    added: bool = True

    def output(self, folder: Path, noise: NoiseSource, with_moved: bool) -> torch.Tensor:
        features = 1 + np.arange(HERE).reshape(-1, 1) / 2**17  # alike, they would share a shard
        one = np.full((1, 1), self.moved)
        if with_moved:
            features = np.concatenate([features if self.added else features[:-1], one])
        door = open_door(folder, self.mechanism, noise=noise)
        output = self.work(enter(door, vectors(features), DECLARED))
        assert refusal(lambda: self.work(enter(door, vectors(features), DECLARED))), "one use more"
        return output.double()


VALUES = 100_000
QUERIES = 8


def summed(private: PrivateRecords) -> torch.Tensor:
    def first(batch: Batch) -> Blocks:
        return Blocks(FAR * batch.features, torch.zeros_like(batch.labels), VALUES)

    return private.noisy_sum(first, clip=CLIP, sigma=SIGMA).unsqueeze(0)


def counted(private: PrivateRecords) -> torch.Tensor:
    return private.noisy_histogram(lambda b: b.labels, bins=VALUES, sigma=SIGMA).unsqueeze(0)


class Leaning(nn.Module):
    """A model of its shard: which way its records lean, all in all."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.way = nn.Parameter(batch.features.sum().sign())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.way * inputs * torch.tensor([1.0, -1.0, 0.0])


def voted(private: PrivateRecords) -> torch.Tensor:
    return private.ensemble(20, Leaning).noisy_votes(torch.ones(VALUES // 3, 1))


def pulled(private: PrivateRecords) -> torch.Tensor:
    inputs = torch.zeros(VALUES // QUERIES)
    ensemble = private.ensemble(20, Leaning)

    def loss(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        assert isinstance(model, Leaning)
        return FAR * model.way * inputs.sum()

    return torch.stack([ensemble.noisy_gradients(inputs, loss) for _ in range(QUERIES)])


@frozen
def leaning(models: Models, batch: Batch) -> torch.Tensor:
    """Which way all records of a sample lean together."""
    del models
    return FAR * batch.features.sum().sign() * torch.ones(VALUES // QUERIES)


def aggregated(private: PrivateRecords) -> torch.Tensor:
    session = private.clipped_aggregate(leaning, (VALUES // QUERIES,))
    return in_steps(private, session.step)


def sent_back(private: PrivateRecords) -> torch.Tensor:
    inputs = torch.zeros(VALUES // QUERIES)

    def loss(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        assert isinstance(model, Leaning)
        return FAR * model.way * inputs.sum()

    session = private.ensemble(1, Leaning).gradients_of_one(loss)
    return in_steps(private, lambda: session.step(inputs))


def in_steps(private: PrivateRecords, step: Callable[[], torch.Tensor]) -> torch.Tensor:
    out = []
    for _ in range(QUERIES):
        out.append(step())
        private._door.checkpoint(State)
    return torch.stack(out)


def left(private: PrivateRecords) -> torch.Tensor:
    twice = private.map(lambda features: FAR * features.expand(-1, 2))
    return torch.from_numpy(twice.transform(LocalNoise(CLIP, SIGMA), "a test").features)


CASES = {
    "sum": Case(NoisySum("m", CLIP, SIGMA), summed, -1.0),
    "exact sum": Case(NoisySum("m", CLIP, SIGMA, noise=EXACT), summed, -1.0),
    "histogram": Case(NoisyHistogram("m", VALUES, SIGMA), counted, 1.0),
    "exact histogram": Case(NoisyHistogram("m", VALUES, SIGMA, noise=EXACT), counted, 1.0),
    "votes": Case(EnsembleVotes("m", 20, VALUES // 3, SIGMA), voted, -1e6),
    "gradients": Case(EnsembleGradients("m", 20, QUERIES, CLIP, SIGMA), pulled, -1e6),
    "aggregate": Case(ClippedAggregate("m", QUERIES, 1.0, CLIP, SIGMA), aggregated, -1e6),
    "one of one": Case(OneOfShardsGradients("m", 1, QUERIES, CLIP, SIGMA), sent_back, -1e6),
    "local": Case(LocalRelease("m", CLIP, SIGMA), left, -1.0, added=False),
}
NUMBERS = {"votes": VALUES // 3} | dict.fromkeys(("gradients", "aggregate", "one of one"), QUERIES)


@pytest.mark.parametrize("name", CASES)
def test_a_release_is_what_its_event_says(tmp_path: Path, name: str) -> None:
    """The noise is the charged multiplier times how far one unit of 60,000 really moves a use."""
    case = CASES[name]
    released = case.output(tmp_path / "run", NoiseSource(), with_moved=False)
    still = case.output(tmp_path / "still", Silence(), with_moved=False)
    moved = case.output(tmp_path / "moved", Silence(), with_moved=True) - still
    farthest = float(moved.norm(dim=1).max())
    event = charged(tmp_path / "run")
    assert event.count == NUMBERS.get(name, 1), "other uses are charged than were made"
    noise = (released - still).numpy().reshape(-1)
    assert fits_normal(noise / farthest, event.sigma), "not the noise that is charged"
    for factor in (0.97, 1.03):
        assert not fits_normal(noise / farthest, factor * event.sigma)


@pytest.mark.parametrize(("name", "each"), [("sum", CLIP), ("histogram", 1.0)])
@pytest.mark.parametrize("exact", ["", "exact "])
def test_every_unit_is_in_a_sum_once(tmp_path: Path, name: str, each: float, exact: str) -> None:
    """Nothing is drawn for what is charged as a release over all units."""
    still = CASES[exact + name].output(tmp_path, Silence(), with_moved=False)
    assert float(still.sum()) == pytest.approx(HERE * each, rel=1e-5), "not all units are in it"
