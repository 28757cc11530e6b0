"""Nearest neighbours and kernel densities of large sets, some distances at a time.

Memory grows with the number of records, never with its square: sixty thousand records
against sixty thousand need no more than a block of distances beyond the records themselves.
All arithmetic is in double precision, in which distances between pixels are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from understudy.data.records import Array
from understudy.errors import UserError

_POINTS = 512
_SUPPORT = 2048
_ROUNDING = 1e-12
CPU = torch.device("cpu")

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Neighbours:
    """For each point its nearest records of a support set, nearest first.

    distances: Euclidean, `[points, count]`. positions: in the support set, of the same shape.
    """

    distances: Numbers
    positions: npt.NDArray[np.int64]


def nearest(
    points: Array,
    support: Array,
    count: int = 1,
    *,
    device: torch.device = CPU,
    within: bool = False,
) -> Neighbours:
    """The nearest records of the support set, around each point.

    within: points and support are the same records in the same order, and none is its own
        neighbour.
    """
    if len(support) - within < count:
        raise UserError(
            f"{count} nearest records need a set of at least {count + within}, not {len(support)}."
        )
    distances = np.empty((len(points), count))
    positions = np.empty((len(points), count), np.int64)
    for start in range(0, len(points), _POINTS):
        some = slice(start, start + _POINTS)
        squares, places = _nearest_of(_matrix(points[some], device), support, count, start, within)
        distances[some] = squares.sqrt().cpu().numpy()
        positions[some] = places.cpu().numpy()
    return Neighbours(distances, positions)


def log_kernel_density(
    points: Array, support: Array, bandwidth: float, *, device: torch.device = CPU
) -> Numbers:
    """The logarithm of the mean Gaussian kernel over the support set, at each point.

    The constant of the kernel is left out: it cancels between two densities of one bandwidth.
    """
    found = np.empty(len(points))
    for start in range(0, len(points), _POINTS):
        some = _matrix(points[start : start + _POINTS], device)
        total = torch.full((len(some),), -torch.inf, dtype=torch.float64, device=device)
        for _, squares in _blocks(some, support):
            kernel = (squares / (-2 * bandwidth**2)).logsumexp(dim=1)
            total = torch.logaddexp(total, kernel)
        found[start : start + _POINTS] = total.cpu().numpy()
    return np.asarray(found - np.log(len(support)))


def _nearest_of(
    points: torch.Tensor, support: Array, count: int, first: int, within: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Squared distances and positions of the nearest, for one block of points."""
    best = torch.full((len(points), count), torch.inf, dtype=torch.float64, device=points.device)
    places = torch.zeros((len(points), count), dtype=torch.int64, device=points.device)
    for start, squares in _blocks(points, support):
        if within:
            own = torch.arange(first, first + len(points), device=points.device) - start
            rows = torch.nonzero((own >= 0) & (own < squares.shape[1])).flatten()
            squares[rows, own[rows]] = torch.inf
        block, where = squares.topk(min(count, squares.shape[1]), largest=False)
        joined = torch.cat([best, block], dim=1)
        best, chosen = joined.topk(count, largest=False, sorted=True)
        places = torch.cat([places, where + start], dim=1).gather(1, chosen)
    return best, places


def _blocks(points: torch.Tensor, support: Array) -> Iterator[tuple[int, torch.Tensor]]:
    """Squared distances to some of the support at a time, with the position of its first."""
    lengths = points.square().sum(dim=1)[:, None]
    for start in range(0, len(support), _SUPPORT):
        some = _matrix(support[start : start + _SUPPORT], points.device)
        scale = lengths + some.square().sum(dim=1)[None]
        squares = torch.addmm(scale, points, some.T, alpha=-2)
        squares[squares < _ROUNDING * scale] = 0.0
        yield start, squares


def _matrix(records: Array, device: torch.device) -> torch.Tensor:
    flat = np.array(records).reshape(len(records), -1)
    matrix = torch.from_numpy(flat).to(device).double()
    if not bool(matrix.isfinite().all()):
        raise UserError("the features hold values that are not finite numbers.")
    return matrix
