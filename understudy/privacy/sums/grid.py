"""Sums on an integer grid, for exact noise (the discrete Gaussian).

Floating-point noise cannot reach all numbers, and which ones it reaches may reveal the value below
it. Here a unit's vector is truncated to whole steps, its norm is bounded *after* that, sums are
exact, and the noise is a whole number of steps too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import torch

from understudy.errors import PrivacyError
from understudy.privacy.sums.clipping import Blocks, ClippedSum
from understudy.privacy.sums.gradient_pieces import Pieces
from understudy.privacy.sums.units import Rows

NOISE_STEPS = 2**24
"""The scale of the noise in steps, the same for every release, so that there is one distribution to
test; the sensitivity in steps determines the noise multiplier. At this scale truncation changes a
record by less than a millionth of the noise."""

_MOST_UNITS = 2**32
"""The sum of more units could overflow int64."""

_VALUES_AT_ONCE = 2**17
"""Values rounded at once, so that the work stays in cache."""


@dataclass(frozen=True)
class Grid:
    """The step size and sensitivity of a release with exact noise: public functions of clip and
    multiplier.

    sensitivity: the number of steps in `clip`, and the largest L2 norm of a unit's vector of steps.

    Guarantee: `NOISE_STEPS / sensitivity` is at least `sigma`, as real numbers.
    """

    clip: float
    sensitivity: int

    @staticmethod
    def of(clip: float, sigma: float) -> Grid:
        return Grid(clip, math.floor(Fraction(NOISE_STEPS) / Fraction(sigma)))

    @property
    def step(self) -> float:
        """The length of one step; scaling by it is post-processing."""
        return self.clip / self.sensitivity


def to_grid(vectors: torch.Tensor, grid: Grid) -> tuple[torch.Tensor, torch.Tensor]:
    """Each vector in whole steps, int64 [rows, width], and its norm before clipping.

    Guarantee: the squared L2 norm of every row of steps, computed in integers, is at most
    `sensitivity^2`, whatever the row held; one that is not finite becomes zero. A row's
    steps depend on that row alone, bit for bit: every floating-point operation here works
    element by element, in an order that depends on the width alone.

    Truncating towards zero makes no vector longer. Where the rounding of floats did, by
    less than a step a coordinate, every coordinate is moved one step towards zero.
    """
    values = vectors.double() / grid.clip  # first: squares of what is far below 1 are nothing
    norms = _norms(values)
    factors = grid.sensitivity / norms.clamp(min=1.0)
    scaled = values * factors.unsqueeze(1)
    usable = torch.isfinite(norms)
    if not bool(usable.all()):
        scaled.masked_fill_(~usable.unsqueeze(1), 0.0)
    steps = scaled.to(torch.int64)  # truncates
    too_long = _too_long(steps, grid)
    if bool(too_long.any()):
        steps[too_long] -= steps[too_long].sign()
        steps[_too_long(steps, grid)] = 0
    return steps, norms * grid.clip


def _too_long(steps: torch.Tensor, grid: Grid) -> torch.Tensor:
    """Exact in int64: the norms that rows were scaled by are right to 1e-12, so a row's squares sum
    to hardly more than the square of the sensitivity, which is at most 2^60."""
    return (steps * steps).sum(dim=1) > grid.sensitivity**2


def _norms(values: torch.Tensor) -> torch.Tensor:
    """L2 norms by pairwise halving, so that a row's order of additions depends on its width alone.
    A library's reduction may choose another order for another number of rows."""
    squares = values * values
    width = squares.shape[1]
    while width > 1:
        half = (width + 1) // 2
        squares[:, : width - half] += squares[:, half:width]
        width = half
    return squares[:, :1].sum(dim=1).sqrt()


class GridSum(ClippedSum):
    """The exact sum over units of their vectors in whole steps; int64.

    Guarantee: a unit's vector is the sum of its rows' vectors, taken to the grid by
    `to_grid` *before* units are added up. Adding or removing one unit therefore moves the
    sum by an integer vector of L2 norm at most `grid.sensitivity`, exactly, if its rows'
    vectors do not depend on other rows (`check_places`).

    single: every record is a unit of its own *by declaration*. The rows of larger units
    are added in their order, on the CPU: elsewhere that order can change from run to run.
    """

    _values_at_once: ClassVar[int] = _VALUES_AT_ONCE

    def __init__(self, grid: Grid, width: int, device: torch.device, single: bool) -> None:
        place = device if single else torch.device("cpu")
        super().__init__(grid.clip, width, place, single)
        self._grid = grid
        self._total = torch.zeros(width, dtype=torch.int64, device=place)

    def add(self, vectors: torch.Tensor | Blocks | Pieces, units: Rows) -> None:
        if isinstance(vectors, Pieces) or not (self.single or isinstance(vectors, torch.Tensor)):
            vectors = vectors.dense()
        if not self.single:
            assert isinstance(vectors, torch.Tensor)
            vectors = vectors.cpu()
        super().add(vectors, units)

    def _add_bounded(self, bounded: torch.Tensor) -> None:
        self._total += bounded.sum(dim=0)

    def _bounded(self, vectors: torch.Tensor) -> torch.Tensor:
        self.units += len(vectors)
        if self.units > _MOST_UNITS:
            raise PrivacyError(f"exact noise is for up to {_MOST_UNITS} units.")
        rows = max(1, self._values_at_once // max(1, vectors.shape[1]))
        pieces = [to_grid(some, self._grid) for some in torch.split(vectors, rows)]
        for _, norms in pieces:
            self.clipped += (norms > self._clip).sum()
        return torch.cat([steps for steps, _ in pieces])
