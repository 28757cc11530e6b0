"""Noise where there is something to hide: at signals below, at and above the clip.

The exact answer of every door is computed here in float64, by other means than the door's; what is
left of a release without it must be the planned noise, whatever the answer is and whoever joined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.rig import KEY, Noting, open_door, vectors
from understudy.audit.noise_tests import (
    Floats,
    are_independent,
    are_unrelated,
    fits_normal,
    ignores_signal,
)
from understudy.data.records import Records
from understudy.data.splits import shard_of
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.dpsgd.loss import Models, Values
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

CLIP, SIGMA = 3.0, 0.5
LEVELS = (0.3, 1.0, 50.0)
"""Norms of what one unit brings, in clips."""

CROWDS = (3, 600)
GROUP = 4000
WIDTH = 3 * GROUP
"""Coordinates without any signal, with a small one and with a large one."""

SHARDS = (1, 30)


@dataclass(frozen=True)
class Released:
    """One release: what it should be without noise, and what was added to that."""

    signal: Floats
    noise: Floats

    @staticmethod
    def of(output: torch.Tensor, exact: Floats) -> Released:
        return Released(exact.reshape(-1), output.double().numpy().reshape(-1) - exact.reshape(-1))


def small_and_large() -> Floats:
    """Two orthonormal vectors [2, WIDTH]: what a unit brings is made of both, so its norm is that
    of its two numbers."""
    signs = np.where(np.random.default_rng(1).random(GROUP) < 0.5, -1.0, 1.0)
    both = np.zeros((2, WIDTH))
    both[0, GROUP : 2 * GROUP] = both[1, 2 * GROUP :] = signs / math.sqrt(GROUP)
    return both


DIRECTIONS = small_and_large()


def pairs_of_numbers(level: float, many: int) -> Floats:
    """Two numbers a unit, of norm `level` clips; the first is small beside the second."""
    angles = np.random.default_rng(many).uniform(0.0, 0.1, many)
    rows = level * CLIP * np.stack([np.sin(angles), np.cos(angles)], axis=1)
    return rows.astype(np.float32).astype(np.float64)


def clipped(rows: Floats) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, CLIP / norms)


def spread_out(features: torch.Tensor) -> torch.Tensor:
    """Each row's two numbers along the two directions; element by element, row by row."""
    one, other = torch.from_numpy(DIRECTIONS).float().to(features.device)
    return features[:, :1] * one + features[:, 1:] * other


def crowds() -> dict[str, Floats]:
    """By the name of a part, its units' numbers: few and many, at each level."""
    return {
        f"{many} at {level:g} clips": pairs_of_numbers(level, many)
        for level in LEVELS
        for many in CROWDS
    }


def parts_of(
    folder: Path,
    records: Mapping[str, Records],
    plan: Callable[[str], Mechanism],
    noise: Noting | None = None,
) -> dict[str, PrivateRecords]:
    """A handle a part, each with one mechanism, behind one door; nobody's count is the true one."""
    door = open_door(folder, *(plan(part) for part in records), noise=noise)
    return door.handles(records, dict.fromkeys(records, 100))


def sums(folder: Path, noise: str = FLOAT) -> list[Released]:
    units = crowds()
    handles = parts_of(
        folder,
        {part: vectors(rows) for part, rows in units.items()},
        lambda part: NoisySum(part, CLIP, SIGMA, part, noise),
    )

    def brought(batch: Batch) -> torch.Tensor:
        return spread_out(batch.features)

    return [
        Released.of(
            private.noisy_sum(brought, clip=CLIP, sigma=SIGMA),
            clipped(units[part]).sum(axis=0) @ DIRECTIONS,
        )
        for part, private in handles.items()
    ]


def exact_sums(folder: Path) -> list[Released]:
    return sums(folder, EXACT)


def bins_of_people() -> dict[str, tuple[Floats, list[str] | None]]:
    """By part, the bin of every record, and whose it is. A record alone is at the bound of one; a
    person's thousand records are far above it."""
    some = np.arange(GROUP, 2 * GROUP, dtype=float)
    often = np.repeat(np.arange(2 * GROUP, WIDTH, dtype=float), 4)
    persons = np.random.default_rng(4).permutation(np.concatenate([some, often[::4]]))
    return {
        "few": (some[:3], None),
        "many": (np.concatenate([some, often]), None),
        "people": (persons, [f"p{i % 6}" for i in range(len(persons))]),
    }


def counts_of(bins: Floats, units: list[str] | None) -> Floats:
    names = [str(i) for i in range(len(bins))] if units is None else units
    total = np.zeros(WIDTH)
    _, owners = np.unique(names, return_inverse=True)
    order = np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[order], np.arange(1, owners.max() + 1))
    for own in np.split(bins[order].astype(int), starts):
        places, counts = np.unique(own, return_counts=True)
        total[places] += counts / max(1.0, float(np.linalg.norm(counts)))
    return total


def histograms(folder: Path, noise: str = FLOAT) -> list[Released]:
    people = bins_of_people()
    handles = parts_of(
        folder,
        {part: vectors(bins[:, None], units) for part, (bins, units) in people.items()},
        lambda part: NoisyHistogram(part, WIDTH, SIGMA, part, noise),
    )
    return [
        Released.of(
            private.noisy_histogram(lambda b: b.features[:, 0], bins=WIDTH, sigma=SIGMA),
            counts_of(*people[part]),
        )
        for part, private in handles.items()
    ]


def exact_histograms(folder: Path) -> list[Released]:
    return histograms(folder, EXACT)


def weights() -> nn.Linear:
    """One of them is not zero: a loss that adds thousands of terms up has other last digits in
    another batch, and is refused as one that mixes records."""
    model = nn.Linear(WIDTH, 1, bias=False)
    with torch.no_grad():
        model.weight.zero_()[0, -1] = 1.0
    return model


@dataclass(frozen=True)
class AlongBoth:
    """A loss whose gradient is what a unit brings."""

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del values
        return models[0](spread_out(batch.features)).squeeze(1)


def steps(folder: Path) -> list[Released]:
    units, source = crowds(), Noting()
    records = {part: vectors(rows) for part, rows in units.items()}
    handles = parts_of(
        folder, records, lambda part: DPSGD(part, 3, 0.5, CLIP, SIGMA, 1, part), source
    )
    found = []
    for part, private in handles.items():
        model, door = weights(), private._door
        speed = Speed(backend="expanded")
        session = private.dp_sgd(door.plan, [model], AlongBoth(), speed=speed, name=part)
        for _ in session.steps():
            session.step()
            door.checkpoint(State)
            assert model.weight.grad is not None
            joined = source.joined[-1].numpy()
            found.append(
                Released.of(
                    model.weight.grad * session.expected_batch,
                    clipped(units[part][joined]).sum(axis=0) @ DIRECTIONS,
                )
            )
    return found


class Opinion(nn.Module):
    """A model of its shard. On input 0 all of them agree; on input 1 they vote as the sum of their
    records has it."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.opinion = nn.Parameter(batch.features.sum().sign())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        agreed = 2.0 * (1 - inputs)
        return torch.cat([agreed, self.opinion * inputs, -self.opinion * inputs], dim=1)


def voters() -> Records:
    return vectors(np.random.default_rng(5).normal(size=(300, 1)))


def opinions_of(records: Records, shards: int) -> Floats:
    """What the models of shards that are not empty say, computed apart from the door."""
    numbers = shard_of(records, shards, KEY)
    values = np.asarray(records.features, np.float64)[:, 0]
    return np.sign([values[numbers == shard].sum() for shard in np.unique(numbers)])


def votes(folder: Path) -> list[Released]:
    records, inputs = voters(), (torch.arange(GROUP) % 2).float().unsqueeze(1)
    found = []
    for shards in SHARDS:
        planned = EnsembleVotes("votes", shards=shards, queries=GROUP, sigma=SIGMA)
        private = parts_of(folder / str(shards), {"train": records}, lambda _, p=planned: p)[
            "train"
        ]
        said = opinions_of(records, shards)
        exact = np.array([[len(said), 0, 0], [0, (said > 0).sum(), (said < 0).sum()]], float)
        output = private.ensemble(shards, Opinion).noisy_votes(inputs)
        found.append(Released.of(output, np.tile(exact, (GROUP // 2, 1))))
    return found


def gradients(folder: Path) -> list[Released]:
    records, found = voters(), []
    towards = np.array([0.05, 1.0]) / math.hypot(0.05, 1.0) @ DIRECTIONS
    for shards in SHARDS:
        planned = EnsembleGradients("gradients", shards, len(LEVELS), CLIP, SIGMA)
        private = parts_of(folder / str(shards), {"train": records}, lambda _, p=planned: p)[
            "train"
        ]
        ensemble, models = private.ensemble(shards, Opinion), len(opinions_of(records, shards))
        for level in LEVELS:
            pull = torch.from_numpy(level * CLIP * towards).float()
            output = ensemble.noisy_gradients(
                torch.zeros(WIDTH), lambda _, x, p=pull: (x * p).sum()
            )
            found.append(Released.of(output, models * min(1.0, level) * CLIP * towards))
    return found


def local_releases(folder: Path) -> list[Released]:
    """At each level many records of six numbers, and one of very many."""
    short = np.tile([0.0, 0.0, 0.01, -0.01, 0.7, -0.7], (GROUP // 2, 1))
    rows = {
        f"{len(some)} at {level:g} radii": (level * CLIP * some).astype(np.float32)
        for level in LEVELS
        for some in (short, DIRECTIONS[1:])
    }
    handles = parts_of(
        folder,
        {part: vectors(some) for part, some in rows.items()},
        lambda part: LocalRelease(part, CLIP, SIGMA, part),
    )
    found = []
    for part, private in handles.items():
        local = private.transform(LocalNoise(CLIP, SIGMA), "a test")
        exact = clipped(rows[part].astype(np.float64))
        found.append(Released.of(torch.from_numpy(local.features), exact))
    return found


DOORS: dict[Callable[[Path], list[Released]], float] = {
    sums: SIGMA * CLIP,
    exact_sums: SIGMA * CLIP,
    histograms: SIGMA,
    exact_histograms: SIGMA,
    steps: SIGMA * CLIP,
    votes: SIGMA * math.sqrt(2),
    gradients: SIGMA * 2 * CLIP,
    local_releases: SIGMA * 2 * CLIP,
}


@pytest.mark.parametrize("door", DOORS, ids=lambda d: d.__name__)
def test_noise_is_the_planned_one_whatever_the_signal(
    tmp_path: Path, door: Callable[[Path], list[Released]]
) -> None:
    releases, deviation = door(tmp_path), DOORS[door]
    for release in releases:
        assert fits_normal(release.noise, deviation), "not the planned noise at this signal"
    assert are_unrelated([release.noise for release in releases]), "noise was used twice"
    noise = np.concatenate([release.noise for release in releases])
    signal = np.concatenate([release.signal for release in releases])
    assert np.abs(signal).max() > 0.4 * deviation, "hardly any signal"
    assert ignores_signal(noise, signal, deviation), "the noise follows the signal"
    assert are_independent(noise), "values come again, or follow from one another"
