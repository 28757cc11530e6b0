"""Checks of the rules about how far one unit can move an output (4, 5, 6 and 9).

As in `rules.py`, each is a function from an empty folder to whether the rule holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from scipy import stats
from torch import nn

from tests.privacy.rig import (
    Silence,
    classify,
    frozen,
    gradient,
    handle,
    mlp,
    pixels,
    records,
    vectors,
)
from tests.privacy.rules import CLIP, SUM, sgd
from understudy.data.records import Records
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.ensemble import make_shards
from understudy.privacy.dpsgd.loss import Loss, Models
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.state import State
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.events import Gaussian
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    EnsembleGradients,
    EnsembleVotes,
    Mechanism,
    NoisyHistogram,
)

BOUND = CLIP * (1 + 1e-7)
"""What a release rounds to float32 adds; what is summed is at most the clip."""


def one_step(
    folder: Path,
    data: Records,
    count: int,
    noise: NoiseSource | None = None,
    models: Sequence[nn.Module] | None = None,
    loss: Loss = classify,
    planned: DPSGD | None = None,
    draws: dict[str, tuple[int, ...]] | None = None,
) -> torch.Tensor:
    """What one step of DP-SGD releases, times the declared batch: the noisy sum."""
    private = handle(folder, data, planned or sgd(), count=count, noise=noise)
    chosen, speed = [mlp()] if models is None else models, Speed(backend="vmap", micro_batch=4)
    session = private.dp_sgd(private._door.plan, chosen, loss, draws, speed)
    session.step()
    private._door.checkpoint(State)
    return torch.cat([gradient(m) for m in chosen]).double() * session.expected_batch


# Rule 4: padding, empty batches, the clip


def all_that_join_count_once(folder: Path) -> bool:
    """Micro-batches of four: sums over 1 to 9 records grow by one record at a time."""
    data = vectors(np.eye(9, dtype=np.float32))
    width = 9

    @frozen
    def ones(models: Models, batch: Batch) -> torch.Tensor:
        return models[0](batch.features).squeeze(1)

    for count in range(1, 10):
        model = nn.Linear(width, 1, bias=False)
        some = data.select(np.arange(count))
        total = one_step(folder / str(count), some, 9, Silence(), [model], ones)
        expected = torch.zeros(width, dtype=torch.float64)
        expected[:count] = CLIP
        if not torch.allclose(total, expected, atol=1e-6):
            return False
    return True


def empty_batches_get_noise(folder: Path) -> bool:
    """Nobody there: a step and a release have the noise that they always have."""
    total = torch.cat(
        [
            one_step(folder / "step", records(0), 20),
            handle(folder / "sum", records(0), SUM, count=20)
            .noisy_sum(lambda b: torch.zeros(len(b), 400), clip=CLIP, sigma=1.0)
            .double(),
        ]
    )
    spread = float((total / CLIP).pow(2).sum())
    below = stats.chi2.cdf(spread, df=len(total))
    return bool(2 * min(below, 1 - below) > 1e-6)


def one_unit_adds_at_most_the_clip(folder: Path) -> bool:
    """Two models, three draws, gradients of any size, poison: one unit, one clip."""
    draws = {"noise": (16,)}
    images = np.stack([np.full(16, v, dtype=np.float32) for v in (1.0, 1e4, 1e-4, np.nan, np.inf)])

    @frozen
    def loss(models: Models, batch: Batch) -> torch.Tensor:
        noised = batch.features + batch.draws["noise"]
        return 1e3 * (models[1](models[0](noised)) ** 2).sum(dim=1)

    norms = []
    for number, image in enumerate(images):
        models = [mlp(1, 16, 4), mlp(2, 4, 3)]
        total = one_step(
            folder / str(number),
            vectors(image[None]),
            5,
            _ManyDraws(),
            models,
            loss,
            sgd(multiplicity=3),
            draws,
        )
        norms.append(float(total.norm()))
    return all(np.isfinite(norms)) and max(norms) <= BOUND and max(norms) >= 0.999 * CLIP


class _ManyDraws(Silence):
    """Silent as noise, but callbacks get draws that differ widely."""

    def normal(
        self,
        shape: int | Sequence[int],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> torch.Tensor:
        if dtype == torch.float64:
            return super().normal(shape, device, dtype)
        return torch.randn(shape, device=device, dtype=dtype)


# Rule 5: stable shards


def units_keep_their_shards(folder: Path) -> bool:
    """Without its first record, every other record is where it was."""
    del folder
    data = records(40)
    shards = [make_shards(d, d, 4, b"k" * 32) for d in (data, data.select(np.arange(1, 40)))]
    homes = [
        {record.tobytes(): number for number, shard in enumerate(each) for record in shard.features}
        for each in shards
    ]
    return all(homes[0][record] == home for record, home in homes[1].items())


# Rule 6: the unit


def a_person_counts_once_in_everything(folder: Path) -> bool:
    """One person with nine images: in a sum, a histogram and a step, at most one clip."""
    data = records(9, units=["ann"] * 9)
    histogram = NoisyHistogram("histogram", bins=3, sigma=1.0)
    private = handle(folder / "sums", data, SUM, histogram, noise=Silence())
    total = private.noisy_sum(pixels, clip=CLIP, sigma=1.0)
    counts = private.noisy_histogram(lambda b: b.labels, bins=3, sigma=1.0)
    step = one_step(folder / "step", data, 1, Silence())
    return (
        float(total.norm()) <= BOUND
        and float(counts.norm()) <= 1 + 1e-7
        and float(step.norm()) <= BOUND
    )


def a_person_joins_as_one(folder: Path) -> bool:
    """All images of a person are in a step, or none."""
    data = vectors(np.repeat(np.eye(6), 3, axis=0), [f"p{i // 3}" for i in range(18)])

    @frozen
    def ones(models: Models, batch: Batch) -> torch.Tensor:
        return models[0](batch.features).squeeze(1)

    for attempt in range(4):
        model = nn.Linear(6, 1, bias=False)
        planned = sgd(sigma=1e-6)
        total = one_step(folder / str(attempt), data, 6, None, [model], ones, planned)
        shares = (total / CLIP).round(decimals=3)
        if not set(shares.tolist()) <= {0.0, 1.0}:
            return False
    return True


# Rule 9: aggregates and shards


class _Mean(nn.Module):
    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.mean = nn.Parameter(batch.features.flatten(1).sum(dim=0))


def aggregates_are_charged_for_a_replaced_shard(folder: Path) -> bool:
    """The noise of a gradient sum is sigma times what the worst neighbour moves it."""
    planned = EnsembleGradients("gradients", shards=1, queries=1, clip=CLIP, sigma=1.0)
    inputs = torch.zeros(400)

    def push(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return (x * model.mean[0]).sum()

    out = []
    for name, sign in (("one", 1.0), ("two", -1.0)):
        data = vectors(np.full((3, 2), sign))
        ensemble = handle(folder / name, data, planned, noise=Silence()).ensemble(1, _Mean)
        out.append(ensemble.noisy_gradients(inputs, push))
    moved = float((out[0] - out[1]).norm())
    ensemble = handle(folder / "noisy", vectors(np.ones((3, 2))), planned).ensemble(1, _Mean)
    noise = (ensemble.noisy_gradients(inputs, push) - out[0]).double()
    below = stats.chi2.cdf(float((noise / moved).pow(2).sum()), df=400)
    return bool(2 * min(below, 1 - below) > 1e-6)


def shards_get_no_discount(folder: Path) -> bool:
    """A query costs the same whether there are two shards or two hundred."""
    del folder
    for queries in (1, 7):
        costs = []
        for shards in (2, 200):
            asked: list[Mechanism] = [
                EnsembleVotes("votes", shards, queries, sigma=3.0),
                EnsembleGradients("gradients", shards, queries, clip=1.0, sigma=3.0),
            ]
            costs.append([m.events(queries) for m in asked])
        if costs != [[(Gaussian(3.0, queries),)] * 2] * 2:
            return False
    return True
