"""Histogram test: every mechanism, priced at epsilon ln 3, on two neighbours, many times.

What the accountant says, what is summed and what is added are looked at together; a twin
with less noise than its price allows is rejected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.rig import frozen, handle, vectors
from understudy.audit.histogram_test import DELTA, EPSILON, keeps_its_promise
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.loss import Models
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.state import State
from understudy.privacy.local.gaussian import LocalNoise
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    EXACT,
    FLOAT,
    EnsembleGradients,
    EnsembleVotes,
    LocalRelease,
    Mechanism,
    NoisyHistogram,
    NoisySum,
)
from understudy.privacy.plan.plan import Budget
from understudy.privacy.sums.clipping import Blocks

CLIP = 2.0
MANY = 60_000
Sampled = Callable[[Path, bool, float], torch.Tensor]
"""Folder, whether the unit in question is there, sigma -> one output a run, many runs."""


def calibrated(make: Callable[[float], Mechanism]) -> float:
    """The multiplier that one use needs at (ln 3, 0.05), by the accountants."""
    plan = Budget(EPSILON, DELTA).calibrate(lambda sigma: (make(sigma),))
    return float(plan.mechanisms[0].sigma)


# Units that stand in a coordinate of their own are as many runs on one unit.


def there_or_not(there: bool, count: int = MANY) -> np.ndarray:
    return np.arange(count if there else 0, dtype=np.float32).reshape(-1, 1)


def outputs_of_sums(folder: Path, there: bool, sigma: float, noise: str = FLOAT) -> torch.Tensor:
    planned = NoisySum("sum", clip=CLIP, sigma=sigma, noise=noise)
    private = handle(folder, vectors(there_or_not(there)), planned, count=9)

    def far(batch: Batch) -> Blocks:
        place = batch.features[:, 0].long().clamp(0, MANY - 1)
        return Blocks(torch.full((len(batch), 1), 1e6), place, MANY)

    return private.noisy_sum(far, clip=CLIP, sigma=sigma)


def outputs_of_exact_sums(folder: Path, there: bool, sigma: float) -> torch.Tensor:
    return outputs_of_sums(folder, there, sigma, EXACT)


def outputs_of_histograms(folder: Path, there: bool, sigma: float) -> torch.Tensor:
    planned = NoisyHistogram("histogram", bins=MANY, sigma=sigma)
    private = handle(folder, vectors(there_or_not(there)), planned, count=9)
    return private.noisy_histogram(lambda b: b.features[:, 0], bins=MANY, sigma=sigma)


def outputs_of_steps(folder: Path, there: bool, sigma: float) -> torch.Tensor:
    units, steps = 300, MANY // 300
    planned = DPSGD("sgd", steps=steps, rate=0.5, clip=CLIP, sigma=sigma)
    rows = np.eye(units) * 1e3
    private = handle(folder, vectors(rows if there else rows[:0]), planned, count=units)
    model = nn.Linear(units, 1, bias=False)

    @frozen
    def value(models: Models, batch: Batch) -> torch.Tensor:
        return models[0](batch.features).squeeze(1)

    speed = Speed(backend="expanded", block_steps=steps)
    session = private.dp_sgd(private._door.plan, [model], value, speed=speed)
    found = []
    for _ in range(steps):
        session.step()
        private._door.checkpoint(State)
        assert model.weight.grad is not None
        found.append(model.weight.grad.reshape(-1) * session.expected_batch)
    return torch.cat(found)


class Sign(nn.Module):
    """A model of its shard: what the first feature of its records is, all in all."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.sign = nn.Parameter(batch.features[:, 0].sum().sign())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        pull = self.sign * inputs[:, 0]
        return torch.stack([pull, -pull, torch.full_like(pull, -9.0)], dim=1)


def with_the_unit_or_without(there: bool) -> np.ndarray:
    return np.array([[-1.0], [2.0]] if there else [[-1.0]])


def outputs_of_votes(folder: Path, there: bool, sigma: float) -> torch.Tensor:
    planned = EnsembleVotes("votes", shards=1, queries=MANY, sigma=sigma)
    private = handle(folder, vectors(with_the_unit_or_without(there)), planned, count=9)
    votes = private.ensemble(1, Sign).noisy_votes(torch.ones(MANY, 1))
    return (votes[:, 0] - votes[:, 1]) / math.sqrt(2)


def outputs_of_gradients(folder: Path, there: bool, sigma: float) -> torch.Tensor:
    """The pull lies along the first coordinate, so the others are further runs of noise."""
    planned = EnsembleGradients("gradients", shards=1, queries=1, clip=CLIP, sigma=sigma)
    private = handle(folder, vectors(with_the_unit_or_without(there)), planned, count=9)

    def pull(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return 1e5 * model.sign * x[0]

    out = private.ensemble(1, Sign).noisy_gradients(torch.zeros(MANY), pull)
    return out[1:] + (CLIP if there else -CLIP)


def outputs_of_local_releases(folder: Path, there: bool, sigma: float) -> torch.Tensor:
    planned = LocalRelease("local", radius=CLIP, sigma=sigma)
    record = np.full((MANY, 1), 1e4 if there else -1e4)
    private = handle(folder, vectors(record), planned)
    return torch.from_numpy(private.transform(LocalNoise(CLIP, sigma), "a test").features)


def make_local(sigma: float) -> Mechanism:
    """A local release costs what a Gaussian does; only the relation differs."""
    return NoisySum("as local", clip=CLIP, sigma=sigma)


MECHANISMS: dict[Sampled, Callable[[float], Mechanism]] = {
    outputs_of_sums: lambda s: NoisySum("sum", clip=CLIP, sigma=s),
    outputs_of_exact_sums: lambda s: NoisySum("sum", clip=CLIP, sigma=s, noise=EXACT),
    outputs_of_histograms: lambda s: NoisyHistogram("histogram", bins=MANY, sigma=s),
    outputs_of_steps: lambda s: DPSGD("sgd", steps=1, rate=0.5, clip=CLIP, sigma=s),
    outputs_of_votes: lambda s: EnsembleVotes("votes", shards=1, queries=1, sigma=s),
    outputs_of_gradients: lambda s: EnsembleGradients("g", shards=1, queries=1, clip=CLIP, sigma=s),
    outputs_of_local_releases: make_local,
}


def sampled(mechanism: Sampled, folder: Path, sigma: float) -> list[Any]:
    return [
        mechanism(folder / str(there), there, sigma).double().reshape(-1).numpy()
        for there in (True, False)
    ]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.__name__)
def test_outputs_on_two_neighbours_are_as_close_as_the_price_says(
    tmp_path: Path, mechanism: Sampled
) -> None:
    sigma = calibrated(MECHANISMS[mechanism])
    there, away = sampled(mechanism, tmp_path, sigma)
    assert keeps_its_promise(there, away), "outputs are farther apart than priced"
    assert not np.array_equal(there, away)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.__name__)
def test_a_twin_with_less_noise_than_its_price_is_rejected(
    tmp_path: Path, mechanism: Sampled
) -> None:
    sigma = 0.6 * calibrated(MECHANISMS[mechanism])
    assert not keeps_its_promise(*sampled(mechanism, tmp_path, sigma))
