"""Nearest neighbours in feature space: what share of one set lies near another.

Around each point of a support set lies the closed ball that reaches to its k-th nearest other
point of that set; together the balls estimate where the set's law has mass. Distances are
computed some rows at a time, so memory grows with the number of records, not with its square.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from understudy.errors import UserError
from understudy.evaluation.distances import Features, checked_pair

_CHUNK = 512
_ROUNDING = 1e-12


def covered_share(points: npt.ArrayLike, support: npt.ArrayLike, neighbours: int) -> float:
    """The share of points inside at least one ball of the support set.

    With synthetic points and real support this is precision, the other way round recall
    (Kynkäänniemi et al. 2019).
    """
    covered = [inside.any(axis=1) for inside in _membership(points, support, neighbours)]
    return float(np.concatenate(covered).mean())


def densities(synthetic: npt.ArrayLike, real: npt.ArrayLike, neighbours: int) -> Features:
    """For each synthetic record the number of real balls around it, in units of k.

    Density (Naeem et al. 2020) is the mean. It has no upper bound; two samples of one law
    have density 1 in expectation, whatever the law and k.
    """
    counts = [inside.sum(axis=1) for inside in _membership(synthetic, real, neighbours)]
    return np.asarray(np.concatenate(counts) / neighbours)


def coverage(synthetic: npt.ArrayLike, real: npt.ArrayLike, neighbours: int) -> float:
    """The share of real balls that hold at least one synthetic record (Naeem et al. 2020).

    Two samples of one law, equally large and not small, have coverage 1 - 2^-k in
    expectation, not 1.
    """
    met = np.zeros(len(np.asarray(real)), dtype=bool)
    for inside in _membership(synthetic, real, neighbours):
        met |= inside.any(axis=0)
    return float(met.mean())


def _membership(
    points: npt.ArrayLike, support: npt.ArrayLike, neighbours: int
) -> Iterator[npt.NDArray[np.bool_]]:
    """For some points at a time, which balls each lies in: `[points, balls]`."""
    p, s = checked_pair(points, support, least=1)
    if len(s) <= neighbours:
        raise UserError(
            f"balls of {neighbours} nearest neighbours need more than {neighbours} "
            f"records on each side, not {len(s)}."
        )
    radii = _neighbour_distances(s, neighbours)
    for start in range(0, len(p), _CHUNK):
        yield _squared_distances(p[start : start + _CHUNK], s) <= radii


def _neighbour_distances(points: Features, neighbours: int) -> Features:
    """Squared distance of each point to its k-th nearest other point."""
    radii = np.empty(len(points))
    for start in range(0, len(points), _CHUNK):
        stop = min(start + _CHUNK, len(points))
        distances = _squared_distances(points[start:stop], points)
        distances[np.arange(stop - start), np.arange(start, stop)] = np.inf
        radii[start:stop] = np.partition(distances, neighbours - 1, axis=1)[:, neighbours - 1]
    return radii


def _squared_distances(x: Features, y: Features) -> Features:
    """All squared distances; equal records get exactly zero, not what rounding leaves."""
    squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1)[None, :]
    distances = squares - 2 * x @ y.T
    distances[distances < _ROUNDING * squares] = 0.0
    return np.asarray(distances)
