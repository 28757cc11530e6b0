"""How far one unit really moves what is released, measured and held against what is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from understudy.audit.doors import DoorCase, StepCase, Still
from understudy.audit.neighbours import Neighbours, vectors
from understudy.data.records import Records, concatenate
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.sums.units import UnitIndex

ROUNDING = 1e-6
"""What may add to a declared sensitivity here: outputs are rounded to float32 before they are
looked at, and some of them are far longer than what one unit adds."""


@dataclass(frozen=True)
class Move:
    """How far apart the exact outputs on two neighbours were."""

    name: str
    distance: float


def farthest(moves: Iterable[Move]) -> Move:
    """The neighbours that are farthest apart; outputs that are no numbers are the farthest."""
    return max(moves, key=lambda move: move.distance)


def moves_of(
    case: DoorCase, pairs: Iterable[Neighbours], noise: Callable[[], NoiseSource] = Still
) -> list[Move]:
    """Exact outputs of one door on both sides of each pair, and how far apart they are.

    noise: a source without noise; what else is drawn from it must not differ between the sides.
    """
    return [
        Move(
            pair.name,
            _distance(case.output(pair.records, noise()), case.output(pair.both, noise())),
        )
        for pair in pairs
    ]


def released_moves(case: DoorCase, pairs: Iterable[Neighbours]) -> list[Move]:
    """The same of what left the door, before what a mechanism makes of its noisy sum."""
    return [
        Move(
            pair.name,
            _distance(case.released(pair.records, Still()), case.released(pair.both, Still())),
        )
        for pair in pairs
    ]


def local_moves(case: DoorCase, pairs: Iterable[Neighbours]) -> list[Move]:
    """How far apart two records' own exact releases are, at most."""
    rows = np.concatenate([pair.both.features for pair in pairs])
    out = case.output(vectors(rows), Still()).double()
    return [Move("two records", float(torch.cdist(out, out).max()))]


def step_moves(case: StepCase, pairs: Sequence[Neighbours]) -> list[Move]:
    """The same for a step of DP-SGD, where the units of all pairs wait behind one door.

    Poisson sampling makes a neighbour of a step whoever joined it: a step draws the units
    of one side of a pair, the next one those of the other.
    """
    everybody, sides = _behind_one_door(pairs)
    sums = case.sums(everybody, sides)
    return [
        Move(pair.name, _distance(sums[2 * i], sums[2 * i + 1])) for i, pair in enumerate(pairs)
    ]


def _behind_one_door(pairs: Sequence[Neighbours]) -> tuple[Records, list[list[int]]]:
    """All records of all pairs, and for each pair the numbers of the units of its sides. Where no
    pair has names, each record is a unit, as in most runs, and no names are declared."""
    if all(pair.both.units is None for pair in pairs):
        return _each_its_own(pairs)
    renamed = [_renamed(pair, number) for number, pair in enumerate(pairs)]
    everybody = concatenate([both for both, _, _ in renamed])
    assert everybody.units is not None
    number_of = {name: i for i, name in enumerate(np.unique(everybody.units).tolist())}
    assert len(UnitIndex(everybody)) == len(number_of)
    sides: list[list[int]] = []
    for _, some, one_more in renamed:
        sides += [[number_of[n] for n in some], [number_of[n] for n in (*some, one_more)]]
    return everybody, sides


def _each_its_own(pairs: Sequence[Neighbours]) -> tuple[Records, list[list[int]]]:
    sides: list[list[int]] = []
    first = 0
    for pair in pairs:
        few, all_of_it = len(pair.records), len(pair.both)
        sides += [list(range(first, first + few)), list(range(first, first + all_of_it))]
        first += all_of_it
    return concatenate([pair.both for pair in pairs]), sides


def _renamed(pair: Neighbours, number: int) -> tuple[Records, list[str], str]:
    """The pair's records under unit names that no other pair uses."""
    both = pair.both
    own = [str(i) for i in range(len(pair.records))] if both.units is None else None
    before = own if own is not None else np.asarray(pair.records.units).tolist()
    more = "new" if own is not None else str(np.asarray(pair.more.units)[0])
    names = [f"{number:03d} {name}" for name in (*before, *([more] * len(pair.more)))]
    told = Records(both.features, both.attributes, both.schema, np.asarray(names))
    some = sorted(set(names[: len(pair.records)]))
    return told, some, names[-1]


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    apart = float((one.double() - other.double()).norm())
    return apart if np.isfinite(apart) else float("inf")
