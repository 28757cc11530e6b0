"""How far one unit moves what a mechanism releases, by the probe that the mechanism names.

A probe is a function of a planned mechanism that gives `Probe`s: measurements on neighbouring made
up records, each with what the mechanism declares. `package.module:function` in the mechanism's
class names it, so that a mechanism of another package brings or inherits its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch

from understudy.audit import doors
from understudy.audit.neighbours import (
    WIDTH,
    Neighbours,
    adversarial_neighbours,
    opposites,
    people,
    random_neighbours,
    vectors,
)
from understudy.audit.sensitivity import (
    ROUNDING,
    Move,
    farthest,
    local_moves,
    moves_of,
    released_moves,
    step_moves,
)
from understudy.errors import UserError
from understudy.plugins import import_for, is_target
from understudy.privacy.accounting.accountants import price
from understudy.privacy.plan.events import Gaussian
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    FLOAT,
    EnsembleGradients,
    EnsembleVotes,
    LocalRelease,
    Mechanism,
    NoisyHistogram,
    NoisySum,
)
from understudy.privacy.plan.mechanisms.unit_sum import UnitSum

_DELTA = 1e-5
_MOST_COLUMNS = 1024
_SHOTS = 8
_AGREES = 1e-4


@dataclass(frozen=True)
class Probe:
    """One measurement: what is declared, and how to find how far neighbours really are apart."""

    name: str
    declared: float
    moves: Callable[[], Sequence[Move]]

    def problem(self) -> str | None:
        """What the measurement holds against the declaration, if anything."""
        worst = farthest(self.moves())
        if worst.distance <= self.declared * (1 + ROUNDING):
            return None
        return (
            f"{self.name}: one unit moves it by {worst.distance:.4g} ({worst.name}), where "
            f"{self.declared:.4g} is declared."
        )


def probes_of(mechanism: Mechanism) -> list[Probe]:
    """The measurements of a mechanism's own probe; none where it gives a reason instead."""
    if not is_target(mechanism.probe):
        return []
    place, _, name = mechanism.probe.partition(":")
    probe = getattr(import_for(place, f"the probe of {mechanism.kind!r}"), name, None)
    if not callable(probe):
        raise UserError(f"the probe of {mechanism.kind!r}, {mechanism.probe}, is no function.")
    return list(cast(Iterable[Probe], probe(mechanism)))


def problems_of(mechanism: Mechanism) -> list[str]:
    """What the probes of a mechanism find wrong with it.

    Guarantee: none; an empty list means that no tried pair of neighbours was farther apart than
    declared, and that a sum over units is charged at least as a Gaussian of its own noise.
    """
    found = [problem for probe in probes_of(mechanism) if (problem := probe.problem())]
    if isinstance(mechanism, UnitSum):
        found += _undercharged(mechanism)
    return found


def unit_sum_cases(planned: UnitSum) -> list[Probe]:
    """Any sum over units, through the door's `release`; its `shaped` besides by itself."""
    pairs = [*adversarial_neighbours(), *people()]
    made = [_of_release(case, pairs) for case in doors.released_cases(planned)]
    if not planned.is_plain:
        made.append(Probe(f"shaped of {planned.kind}", planned.multiple, lambda: _stretch(planned)))
    return made


def sum_cases(planned: NoisySum) -> list[Probe]:
    pairs = [*adversarial_neighbours(), *people()]
    return [_of_case(case, pairs) for case in doors.sum_cases(planned)]


def histogram_cases(planned: NoisyHistogram) -> list[Probe]:
    pairs = [*adversarial_neighbours(), *people()]
    return [_of_case(case, pairs) for case in doors.histogram_cases(planned)]


def vote_cases(planned: EnsembleVotes) -> list[Probe]:
    return [_of_case(case, _of_ensembles()) for case in doors.vote_cases(planned)]


def gradient_cases(planned: EnsembleGradients) -> list[Probe]:
    return [_of_case(case, _of_ensembles()) for case in doors.gradient_cases(planned)]


def local_cases(planned: LocalRelease) -> list[Probe]:
    case = doors.local_case(planned)
    pairs = adversarial_neighbours()
    return [Probe(case.name, case.sensitivity, lambda: local_moves(case, pairs))]


def step_cases(planned: DPSGD) -> list[Probe]:
    """Steps over two models with a joint clip, by either backend."""
    return [
        _of_steps(doors.StepCase(backend, "float32", 1, planned.clip))
        for backend in ("expanded", "vmap")
    ]


def _of_steps(case: doors.StepCase) -> Probe:
    pairs = [*adversarial_neighbours(), *people()]
    return Probe(case.name, case.clip, lambda: step_moves(case, pairs))


def _of_release(case: doors.DoorCase, pairs: Sequence[Neighbours]) -> Probe:
    return Probe(case.name, case.sensitivity, lambda: released_moves(case, pairs))


def _of_case(case: doors.DoorCase, pairs: Sequence[Neighbours]) -> Probe:
    return Probe(case.name, case.sensitivity, lambda: moves_of(case, pairs))


def _of_ensembles() -> list[Neighbours]:
    return [*opposites(), *random_neighbours(20, seed=1), *people()]


def _stretch(planned: UnitSum) -> list[Move]:
    """The largest factor by which `shaped` lengthens a vector: its matrix's norm."""
    width = planned.width or WIDTH
    generator = torch.Generator().manual_seed(0)
    some = torch.randn(_SHOTS, width, generator=generator, dtype=torch.float64)
    if width > _MOST_COLUMNS:
        return [_longer(planned, row) for row in some]
    columns = torch.eye(width, dtype=torch.float64)
    matrix = torch.stack([planned.shaped(column) for column in columns])
    for row in some:
        if not torch.allclose(planned.shaped(row), row @ matrix, rtol=_AGREES, atol=_AGREES):
            return [Move("shaped is no linear map", float("inf"))]
    return [Move("the norm of its matrix", float(torch.linalg.matrix_norm(matrix, 2)))]


def _longer(planned: UnitSum, row: torch.Tensor) -> Move:
    return Move("a random vector", float(planned.shaped(row).norm() / row.norm()))


def _undercharged(planned: UnitSum) -> list[str]:
    """One use must cost at least what the noise that the door adds for it is worth."""
    if planned.arithmetic != FLOAT:
        return []  # noise on the grid has a test of its own, whatever is summed
    case, nothing = doors.released_cases(planned)[0], vectors([0.0] * WIDTH)
    deviation = float(case.released(nothing, doors.Ones()).min())
    charged = price(planned.events(1), _DELTA).epsilon
    worth = price([Gaussian(deviation / planned.sensitivity)], _DELTA).epsilon
    if charged >= worth * (1 - _AGREES):
        return []
    return [
        f"{planned.kind}: a use is charged epsilon {charged:.4g} at delta {_DELTA:g}, where noise "
        f"of {deviation:.4g} on a sensitivity of {planned.sensitivity:.4g} costs {worth:.4g}."
    ]
