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
from understudy.privacy.plan.plan import Budget, Plan
from understudy.privacy.sums.clipping import Blocks

CLIP = 0.5
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


def open_door(folder: Path, mechanism: Mechanism, noise: NoiseSource) -> Door:
    """A door on a run of one mechanism, under no budget; a rehearsal, not a run."""
    plan = Plan(Budget.empirical(), (mechanism,), math.inf, "none: a measurement", Plan.new_ident())
    return Door(Journal.create(folder, plan, {}), noise, shard_key=b"measure" * 5)


@dataclass(frozen=True)
class DoorCase:
    """One use of a mechanism: `sensitivity` is declared, `run` gives what comes out."""

    name: str
    mechanism: Mechanism
    sensitivity: float
    run: Callable[[PrivateRecords], torch.Tensor]

    def output(self, records: Records, noise: NoiseSource, count: int = 10) -> torch.Tensor:
        """What comes out of a fresh door on these records; exact, if the noise is `Still`."""
        with scratch_folder() as name:
            door = open_door(Path(name), self.mechanism, noise)
            try:
                return self.run(door.handles({"train": records}, {"train": count})["train"])
            finally:
                door.abandon()


def one_shot_cases() -> list[DoorCase]:
    """Sums and histograms, in every form that a vector can have, with noise of either kind."""
    planned = NoisySum("sum", clip=CLIP, sigma=1.0)
    made = [
        DoorCase(f"sum of {name}", planned, CLIP, _summed(vector_of))
        for name, vector_of in _vector_callbacks().items()
    ]
    made.append(DoorCase("sum after map", planned, CLIP, _mapped_and_summed))
    histogram = NoisyHistogram("histogram", bins=len(CLASSES), sigma=1.0)
    made.append(DoorCase("histogram", histogram, 1.0, _counted))
    return made + [_on_a_grid(case) for case in made]


def _on_a_grid(case: DoorCase) -> DoorCase:
    """The same release with exact noise."""
    assert isinstance(case.mechanism, NoisySum | NoisyHistogram)
    return replace(case, name=f"exact {case.name}", mechanism=replace(case.mechanism, noise=EXACT))


def ensemble_cases() -> list[DoorCase]:
    """Votes and gradients of models that are functions of their shard."""
    queries = torch.eye(WIDTH)
    return [
        DoorCase(
            "ensemble votes",
            EnsembleVotes("votes", shards=2, queries=1, sigma=1.0),
            math.sqrt(2),
            lambda private: private.ensemble(2, _Template).noisy_votes(queries[:1]),
        ),
        DoorCase(
            "ensemble gradients",
            EnsembleGradients("gradients", shards=2, queries=1, clip=CLIP, sigma=1.0),
            2 * CLIP,
            lambda private: private.ensemble(2, _Template).noisy_gradients(queries, _pull),
        ),
    ]


def local_case() -> DoorCase:
    """Every record leaves by itself: compare outputs row by row, under replacing one."""
    planned = LocalRelease("local", radius=CLIP, sigma=1.0)

    def released(private: PrivateRecords) -> torch.Tensor:
        local = private.transform(LocalNoise(CLIP, 1.0), "a measurement")
        return torch.from_numpy(local.features)

    return DoorCase("local", planned, 2 * CLIP, released)


@dataclass(frozen=True)
class StepCase:
    """DP-SGD in one of its settings, over two models that share one clip."""

    backend: str
    precision: str
    multiplicity: int

    @property
    def name(self) -> str:
        return f"{self.backend}, {self.precision}, {self.multiplicity} draws"

    def sums(self, records: Records, steps: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """The exact sum of each step, over the units that it names."""
        planned = DPSGD("sgd", _STEPS, 0.5, CLIP, 1.0, multiplicity=self.multiplicity)
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


def _vector_callbacks() -> dict[str, Callable[[Batch], torch.Tensor | Blocks]]:
    def cast(dtype: torch.dtype) -> Callable[[Batch], torch.Tensor]:
        return lambda batch: batch.features.to(dtype)

    return {
        "float32 vectors": cast(torch.float32),
        "float16 vectors": cast(torch.float16),
        "bfloat16 vectors": cast(torch.bfloat16),
        "float64 vectors": cast(torch.float64),
        "blocks": lambda batch: Blocks(batch.features, batch.labels, len(CLASSES)),
    }


def _summed(
    vector_of: Callable[[Batch], torch.Tensor | Blocks],
) -> Callable[[PrivateRecords], torch.Tensor]:
    return lambda private: private.noisy_sum(vector_of, clip=CLIP, sigma=1.0)


def _mapped_and_summed(private: PrivateRecords) -> torch.Tensor:
    encoded = private.map(lambda features: torch.tanh(features) * 3)
    return encoded.noisy_sum(lambda b: b.features, clip=CLIP, sigma=1.0)


def _counted(private: PrivateRecords) -> torch.Tensor:
    return private.noisy_histogram(lambda b: b.labels, bins=len(CLASSES), sigma=1.0)


class _Template(nn.Module):
    """A model of its shard: the sum of its records, by which it answers and pulls."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.total = nn.Parameter(torch.nan_to_num(batch.features).sign().sum(dim=0))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return (inputs * self.total).sum(dim=1, keepdim=True) * torch.tensor([1.0, 0.0, -1.0])


def _pull(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    assert isinstance(model, _Template)
    return (1e3 * inputs * model.total).sum()
