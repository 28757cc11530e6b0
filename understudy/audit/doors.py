"""Every way through the door, as a case whose exact output can be looked at without noise.

What a mechanism declares (how far one unit moves its output) is measured on these.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from understudy.audit.neighbours import CLASSES, WIDTH
from understudy.data.records import Records
from understudy.privacy.door.batch import Batch, Draws
from understudy.privacy.door.door import Door
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.door.replay_tape import Tape
from understudy.privacy.dpsgd.loss import Models, Values
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.state import State
from understudy.privacy.local.gaussian import LocalNoise
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    EXACT,
    EnsembleGradients,
    EnsembleVotes,
    LocalRelease,
    Mechanism,
    NoisyHistogram,
    NoisySum,
)
from understudy.privacy.plan.mechanisms.unit_sum import UnitSum
from understudy.privacy.plan.plan import Budget, Plan
from understudy.privacy.sums.clipping import Blocks

VectorOf = Callable[[Batch], torch.Tensor | Blocks]

CLIP = 0.5
"""The clip of every mechanism's `example`."""

_STEPS = 10_000


class Still(NoiseSource):
    """No noise at all, and everybody in every step: for measuring, never for a release.

    What callbacks draw differs between the `copies` of a record and not between records,
    so that two runs can be compared record by record.
    """

    def __init__(self, copies: int = 1) -> None:
        super().__init__()
        self.insecure_seed = 0
        self._copies = copies

    def normal(
        self,
        shape: int | Sequence[int],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> torch.Tensor:
        zeros = torch.zeros(shape, device=device, dtype=dtype)
        if dtype == torch.float64:
            return zeros
        copy = torch.arange(len(zeros), device=device) % self._copies
        return zeros + (4.0 * copy - 2.0).reshape(-1, *(1 for _ in zeros.shape[1:]))

    def discrete_gaussian(
        self, shape: int | Sequence[int], scale: int, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        del scale
        return torch.zeros(shape, device=device, dtype=torch.int64)

    def bernoulli(
        self, count: int, rate: float, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        del rate
        return torch.ones(count, dtype=torch.bool, device=device)


class Ones(Still):
    """As `Still`, but noise is its own standard deviation."""

    def normal(
        self,
        shape: int | Sequence[int],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> torch.Tensor:
        return torch.ones(shape, device=device, dtype=dtype)


class Chosen(Still):
    """As `Still`, but the units of each step are the next of those given."""

    def __init__(self, steps: Iterable[Sequence[int]], copies: int = 1) -> None:
        super().__init__(copies)
        self._steps = deque(steps)

    def bernoulli(
        self, count: int, rate: float, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        joined = super().bernoulli(count, rate, device).logical_not()
        joined[list(self._steps.popleft())] = True
        return joined


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder that is gone afterwards, in memory where the system has such a place: a
    measurement has nothing to keep, and waiting for a disk is most of what it would take."""
    memory = "/dev/shm"
    return tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)


def open_door(
    folder: Path, mechanism: Mechanism, noise: NoiseSource, tape: Tape | None = None
) -> Door:
    """A door on a run of one mechanism, under no budget; a rehearsal, not a run."""
    plan = Plan(Budget.empirical(), (mechanism,), math.inf, "none: a measurement", Plan.new_ident())
    return Door(Journal.create(folder, plan, {}), noise, shard_key=b"measure" * 5, tape=tape)


@dataclass(frozen=True)
class DoorCase:
    """One use of a mechanism: `sensitivity` is declared, `run` gives what comes out."""

    name: str
    mechanism: Mechanism
    sensitivity: float
    run: Callable[[PrivateRecords], torch.Tensor]

    def output(self, records: Records, noise: NoiseSource, count: int = 10) -> torch.Tensor:
        """What comes out of a fresh door on these records; exact, if the noise is `Still`."""
        return self._run(records, noise, count)[0]

    def released(self, records: Records, noise: NoiseSource, count: int = 10) -> torch.Tensor:
        """The same, as it left the door: before what a mechanism makes of its noisy sum."""
        return torch.cat([out.flatten() for out in self._run(records, noise, count)[1].outputs])

    def _run(self, records: Records, noise: NoiseSource, count: int) -> tuple[torch.Tensor, Tape]:
        part, tape = self.mechanism.part, Tape()
        with scratch_folder() as name:
            door = open_door(Path(name), self.mechanism, noise, tape)
            try:
                return self.run(door.handles({part: records}, {part: count})[part]), tape
            finally:
                door.abandon()


def one_shot_cases() -> list[DoorCase]:
    """Sums and histograms, in every form that a vector can have, with noise of either kind."""
    made = [*sum_cases(NoisySum.example()), *histogram_cases(NoisyHistogram.example())]
    return made + [_on_a_grid(case) for case in made]


def sum_cases(planned: NoisySum) -> list[DoorCase]:
    made = [
        DoorCase(f"sum of {name}", planned, planned.clip, _summed(vector_of, planned))
        for name, vector_of in _vector_callbacks().items()
    ]

    def mapped_and_summed(private: PrivateRecords) -> torch.Tensor:
        encoded = private.map(lambda features: torch.tanh(features) * 3)
        return encoded.noisy_sum(lambda b: b.features, clip=planned.clip, sigma=planned.sigma)

    return [*made, DoorCase("sum after map", planned, planned.clip, mapped_and_summed)]


def histogram_cases(planned: NoisyHistogram) -> list[DoorCase]:
    def counted(private: PrivateRecords) -> torch.Tensor:
        return private.noisy_histogram(lambda b: b.labels, planned.bins, planned.sigma)

    return [DoorCase("histogram", planned, 1.0, counted)]


def released_cases(planned: UnitSum) -> list[DoorCase]:
    """What `release` makes of a planned sum, of any package."""
    made = _vector_callbacks() if planned.width is None else _vectors_of(planned.width)
    far, named = planned.sensitivity, planned.name
    return [
        DoorCase(f"{planned.kind} of {what}", planned, far, _released(vector_of, named))
        for what, vector_of in made.items()
    ]


def _on_a_grid(case: DoorCase) -> DoorCase:
    """The same release with exact noise."""
    exact = case.mechanism.with_arithmetic(EXACT)
    return replace(case, name=f"exact {case.name}", mechanism=exact)


def ensemble_cases() -> list[DoorCase]:
    """Votes and gradients of models that are functions of their shard."""
    return [
        *vote_cases(EnsembleVotes.example()),
        *gradient_cases(EnsembleGradients.example()),
    ]


def vote_cases(planned: EnsembleVotes) -> list[DoorCase]:
    def voted(private: PrivateRecords) -> torch.Tensor:
        return private.ensemble(planned.shards, Template).noisy_votes(torch.eye(WIDTH)[:1])

    return [DoorCase("ensemble votes", planned, math.sqrt(2), voted)]


def gradient_cases(planned: EnsembleGradients) -> list[DoorCase]:
    def pulled(private: PrivateRecords) -> torch.Tensor:
        return private.ensemble(planned.shards, Template).noisy_gradients(torch.eye(WIDTH), pull)

    return [DoorCase("ensemble gradients", planned, 2 * planned.clip, pulled)]


def local_case(planned: LocalRelease | None = None) -> DoorCase:
    """Every record leaves by itself: compare outputs row by row, under replacing one."""
    local = planned or LocalRelease.example()

    def released(private: PrivateRecords) -> torch.Tensor:
        sent = private.transform(LocalNoise(local.radius, local.sigma), "a measurement")
        return torch.from_numpy(sent.features)

    return DoorCase("local", local, 2 * local.radius, released)


@dataclass(frozen=True)
class StepCase:
    """DP-SGD in one of its settings, over two models that share one clip."""

    backend: str
    precision: str
    multiplicity: int
    clip: float = CLIP

    @property
    def name(self) -> str:
        return f"{self.backend}, {self.precision}, {self.multiplicity} draws"

    def sums(self, records: Records, steps: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """The exact sum of each step, over the units that it names."""
        planned = DPSGD("sgd", _STEPS, 0.5, self.clip, 1.0, multiplicity=self.multiplicity)
        with scratch_folder() as name:
            door = open_door(Path(name), planned, Chosen(steps, self.multiplicity))
            private = door.handles({"train": records}, {"train": 10})["train"]
            speed = Speed(4 * self.multiplicity, self.backend, self.precision)
            models, found = two_models(), []
            session = private.dp_sgd(door.plan, models, JointLoss(), _DRAWS, speed)
            for _ in steps:
                session.step()
                door.checkpoint(State)
                gradients = [p.grad for m in models for p in m.parameters() if p.grad is not None]
                flat = torch.cat([g.reshape(-1) for g in gradients])
                found.append(flat.double() * session.expected_batch)
            door.abandon()
        return found


_DRAWS: Draws = {"noise": (WIDTH,)}


def two_models() -> list[nn.Module]:
    """The same weights every time."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return [
            nn.Sequential(nn.Linear(WIDTH, 6), nn.Tanh(), nn.Linear(6, 4)),
            nn.Linear(4, len(CLASSES)),
        ]


@dataclass(frozen=True)
class JointLoss:
    """A loss through both models with gradients far above the clip."""

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del values
        answer = models[1](models[0](batch.features + batch.draws["noise"]))
        return 1e3 * nn.functional.cross_entropy(answer, batch.labels, reduction="none")


def _vector_callbacks() -> dict[str, VectorOf]:
    def cast(dtype: torch.dtype) -> Callable[[Batch], torch.Tensor]:
        return lambda batch: batch.features.to(dtype)

    return {
        "float32 vectors": cast(torch.float32),
        "float16 vectors": cast(torch.float16),
        "bfloat16 vectors": cast(torch.bfloat16),
        "float64 vectors": cast(torch.float64),
        "blocks": lambda batch: Blocks(batch.features, batch.labels, len(CLASSES)),
    }


def _vectors_of(width: int) -> dict[str, VectorOf]:
    """Vectors of a given width: features over and over, and one loud number at a label's place."""
    places = torch.arange(width)
    return {
        "features repeated": lambda batch: batch.features[:, places % WIDTH],
        "one number": lambda batch: (
            1e3 * (places == batch.labels[:, None] % width).to(torch.float32)
        ),
    }


def _summed(vector_of: VectorOf, planned: NoisySum) -> Callable[[PrivateRecords], torch.Tensor]:
    return lambda private: private.noisy_sum(vector_of, clip=planned.clip, sigma=planned.sigma)


def _released(vector_of: VectorOf, name: str) -> Callable[[PrivateRecords], torch.Tensor]:
    return lambda private: private.release(name, vector_of)


class Template(nn.Module):
    """A model of its shard: the sum of its records, by which it answers and pulls."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.total = nn.Parameter(torch.nan_to_num(batch.features).sign().sum(dim=0))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return (inputs * self.total).sum(dim=1, keepdim=True) * torch.tensor([1.0, 0.0, -1.0])


def pull(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    assert isinstance(model, Template)
    return (1e3 * inputs * model.total).sum()
