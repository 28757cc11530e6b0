"""The noise of every door: the planned scale and no other, normal, fresh at every use."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.rig import flat_loss, frozen, handle, vectors
from understudy.audit.noise_tests import SAMPLES, are_independent, fits_normal
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.steps import Steps
from understudy.privacy.dpsgd.loss import Models
from understudy.privacy.ledger.state import State
from understudy.privacy.local.gaussian import LocalNoise
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    EXACT,
    FLOAT,
    ClippedAggregate,
    EnsembleGradients,
    EnsembleVotes,
    LocalRelease,
    NoisyHistogram,
    NoisySum,
    OneOfShardsGradients,
    Stepwise,
)

CLIP, SIGMA = 3.0, 2.0
NOBODY = vectors(np.zeros((0, 1)))
HALF = SAMPLES // 2


def noise_of_sums(folder: Path, noise: str = FLOAT) -> torch.Tensor:
    planned = [NoisySum(name, clip=CLIP, sigma=SIGMA, noise=noise) for name in ("one", "two")]
    private = handle(folder, vectors(np.ones((3, 1))), *planned)

    def nothing(batch: Batch) -> torch.Tensor:
        return torch.zeros(len(batch), HALF)

    return torch.cat([private.noisy_sum(nothing, clip=CLIP, sigma=SIGMA) for _ in planned])


def noise_of_histograms(folder: Path, noise: str = FLOAT) -> torch.Tensor:
    planned = [NoisyHistogram(name, HALF, SIGMA, noise=noise) for name in ("one", "two")]
    private = handle(folder, NOBODY, *planned, count=3)
    return torch.cat(
        [private.noisy_histogram(lambda b: b.labels, bins=HALF, sigma=SIGMA) for _ in planned]
    )


def noise_of_exact_sums(folder: Path) -> torch.Tensor:
    return noise_of_sums(folder, EXACT)


def noise_of_exact_histograms(folder: Path) -> torch.Tensor:
    return noise_of_histograms(folder, EXACT)


def noise_of_steps(folder: Path) -> torch.Tensor:
    planned = DPSGD("sgd", steps=2, rate=0.5, clip=CLIP, sigma=SIGMA)
    private = handle(folder, vectors(np.ones((4, 1))), planned)
    model = nn.Linear(1, HALF, bias=False)
    session = private.dp_sgd(private._door.plan, [model], flat_loss)
    found = []
    for _ in range(2):
        session.step()
        private._door.checkpoint(State)
        assert model.weight.grad is not None
        found.append(model.weight.grad.reshape(-1) * session.expected_batch)
    return torch.cat(found)


def noise_of_votes(folder: Path) -> torch.Tensor:
    queries = math.ceil(SAMPLES / 3)
    planned = EnsembleVotes("votes", shards=2, queries=queries, sigma=SIGMA)
    ensemble = handle(folder, NOBODY, planned, count=3).ensemble(2, lambda _: nn.Linear(1, 3))
    return ensemble.noisy_votes(torch.zeros(queries, 1)).reshape(-1)


def noise_of_gradients(folder: Path) -> torch.Tensor:
    planned = EnsembleGradients("gradients", shards=2, queries=2, clip=CLIP, sigma=SIGMA)
    ensemble = handle(folder, NOBODY, planned, count=3).ensemble(2, lambda _: nn.Identity())
    inputs = torch.zeros(HALF)
    return torch.cat([ensemble.noisy_gradients(inputs, lambda _, x: x.sum()) for _ in range(2)])


def noise_of_aggregates(folder: Path) -> torch.Tensor:
    planned = ClippedAggregate("critic", steps=2, rate=0.5, clip=CLIP, sigma=SIGMA)
    session = handle(folder, NOBODY, planned, count=3).clipped_aggregate(nothing_of_all, (HALF,))
    return torch.cat([stepped(session, session.step) for _ in range(2)])


def noise_of_one_shard(folder: Path) -> torch.Tensor:
    planned = OneOfShardsGradients("one", shards=2, steps=2, clip=CLIP, sigma=SIGMA)
    ensemble = handle(folder, NOBODY, planned, count=3).ensemble(2, lambda _: nn.Identity())
    session = ensemble.gradients_of_one(lambda _, x: x.sum())
    return torch.cat([stepped(session, partial(session.step, torch.zeros(HALF))) for _ in range(2)])


def stepped(session: Steps[Stepwise], step: Callable[[], torch.Tensor]) -> torch.Tensor:
    released = step()
    session._door.checkpoint(State)
    return released


@frozen
def nothing_of_all(models: Models, batch: Batch) -> torch.Tensor:
    del models, batch
    return torch.zeros(HALF)


def noise_of_local_releases(folder: Path) -> torch.Tensor:
    planned = LocalRelease("local", radius=CLIP, sigma=SIGMA)
    private = handle(folder, vectors(np.zeros((1000, SAMPLES // 1000))), planned)
    local = private.transform(LocalNoise(CLIP, SIGMA), "a test")
    return torch.from_numpy(local.features).reshape(-1)


DOORS = {
    noise_of_sums: SIGMA * CLIP,
    noise_of_histograms: SIGMA,
    noise_of_exact_sums: SIGMA * CLIP,
    noise_of_exact_histograms: SIGMA,
    noise_of_steps: SIGMA * CLIP,
    noise_of_votes: SIGMA * math.sqrt(2),
    noise_of_gradients: SIGMA * 2 * CLIP,
    noise_of_aggregates: SIGMA * 2 * CLIP,
    noise_of_one_shard: SIGMA * 2 * CLIP,
    noise_of_local_releases: SIGMA * 2 * CLIP,
}


@pytest.mark.parametrize("door", DOORS, ids=lambda d: d.__name__)
def test_noise_has_the_planned_scale_and_no_other(
    tmp_path: Path, door: Callable[[Path], torch.Tensor]
) -> None:
    noise, deviation = door(tmp_path).double().numpy(), DOORS[door]
    assert noise.size >= SAMPLES
    assert fits_normal(noise, deviation), "not the planned noise"
    assert not fits_normal(noise, 0.95 * deviation)
    assert not fits_normal(noise, 1.05 * deviation)
    assert are_independent(noise), "values come again, or follow from one another"


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda noise: 0.95 * noise, id="too little"),
        pytest.param(lambda noise: 1.05 * noise, id="too much"),
        pytest.param(lambda noise: noise.sign() * SIGMA * CLIP, id="another shape"),
        pytest.param(lambda noise: torch.zeros_like(noise), id="none"),
    ],
)
def test_the_scale_test_rejects(
    tmp_path: Path, broken: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    assert not fits_normal(broken(noise_of_sums(tmp_path)).double().numpy(), SIGMA * CLIP)


def test_the_independence_test_rejects_noise_that_comes_again(tmp_path: Path) -> None:
    noise = noise_of_sums(tmp_path).double().numpy()
    assert not are_independent(np.concatenate([noise[:HALF], noise[:HALF]]))
