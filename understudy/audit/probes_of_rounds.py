"""Probes of mechanisms whose steps clip one vector as a whole: twice the clip, and no less.

Of a mechanism that draws, each possible draw is measured by itself: amplification by the draw is
the accountant's, and holds only if every draw alone moves no further than declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from understudy.audit.doors import DoorCase, Still, Template, pull
from understudy.audit.neighbours import (
    WIDTH,
    Neighbours,
    adversarial_neighbours,
    opposites,
    people,
    random_neighbours,
)
from understudy.audit.probes import Probe
from understudy.audit.sensitivity import Move, moves_of
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.dpsgd.loss import Models, Values
from understudy.privacy.plan.mechanisms import ClippedAggregate, OneOfShardsGradients

_MOST_DRAWS = 8


class Drawn(Still):
    """As `Still`, but every whole number that is drawn is this one."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def integers(self, count: int, below: int, device: torch.device | str = "cpu") -> torch.Tensor:
        assert self._number < below
        return torch.full((count,), self._number, device=device)


@dataclass(frozen=True)
class Majority:
    """An aggregate that turns round if one unit outweighs all others."""

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del models, values
        return 1e3 * torch.nan_to_num(batch.features).sign().sum(dim=0)


@dataclass(frozen=True)
class AsTheyAre:
    """An aggregate of values that may be far too large, or no numbers."""

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del models, values
        return batch.features.sum(dim=0)


def aggregate_case(planned: ClippedAggregate) -> list[DoorCase]:
    """One step in which everybody joins, of aggregates that one unit moves as far as it can."""

    def stepped(aggregate: Majority | AsTheyAre, private: PrivateRecords) -> torch.Tensor:
        return private.clipped_aggregate(aggregate, (WIDTH,), name=planned.name).step()

    made: dict[str, Majority | AsTheyAre] = {"majority": Majority(), "values": AsTheyAre()}
    return [
        DoorCase(f"aggregate by {of}", planned, planned.sensitivity, partial(stepped, aggregate))
        for of, aggregate in made.items()
    ]


def one_of_shards_case(planned: OneOfShardsGradients) -> DoorCase:
    """One step on models that are functions of their shard; which one is the noise source's."""

    def stepped(private: PrivateRecords) -> torch.Tensor:
        ensemble = private.ensemble(planned.shards, Template)
        return ensemble.gradients_of_one(pull, planned.name).step(torch.eye(WIDTH))

    return DoorCase("gradient of one shard", planned, planned.sensitivity, stepped)


def aggregate_cases(planned: ClippedAggregate) -> list[Probe]:
    return [
        Probe(case.name, case.sensitivity, partial(moves_of, case, _pairs()))
        for case in aggregate_case(planned)
    ]


def one_of_shards_cases(planned: OneOfShardsGradients) -> list[Probe]:
    case = one_of_shards_case(planned)
    return [Probe(case.name, case.sensitivity, partial(moves_of_draws, case, planned.shards))]


def moves_of_draws(case: DoorCase, shards: int) -> list[Move]:
    """The moves of every draw, for the first shards; all draws are alike."""
    draws = range(min(shards, _MOST_DRAWS))
    return [move for draw in draws for move in moves_of(case, _pairs(), partial(Drawn, draw))]


def _pairs() -> Sequence[Neighbours]:
    return [*opposites(), *random_neighbours(6, seed=1), *adversarial_neighbours(), *people()]
