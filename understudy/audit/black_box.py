"""Guessing from the released records alone which canaries were among the private ones."""

from __future__ import annotations

import numpy as np

from understudy.audit.canaries import Scores
from understudy.data.records import Records

_ROWS_AT_ONCE = 256
_NARROW = 0.02
"""The squared width of the kernel, beside the mean squared distance to the nearest record."""

_FEWEST_NEIGHBOURS = 20
"""Below so many released records of its label, a canary is compared with all of them."""


def density_scores(canaries: Records, released: Records) -> Scores:
    """How densely released records lie around each canary: the denser, the likelier it was in.

    A Gaussian kernel over released records of the canary's own label. Images of noise are
    all about equally far from each other, so the kernel is narrow beside the distance from a
    canary to its nearest released record: copies and near copies stand out, and of records
    that are all far the nearest few count. Scores only order canaries.
    """
    known, made = _flat(canaries), _flat(released)
    squares = _squared_distances(known, made)
    other_label = np.asarray(canaries.labels)[:, None] != np.asarray(released.labels)[None, :]
    enough = (~other_label).sum(axis=1) >= _FEWEST_NEIGHBOURS
    squares[other_label & enough[:, None]] = np.inf
    nearest = squares.min(axis=1)
    width = _NARROW * float(nearest.mean()) or 1.0
    weights = np.exp(-(squares - nearest[:, None]) / (2 * width))
    return np.asarray(np.log(weights.mean(axis=1)) - nearest / (2 * width))


def _flat(records: Records) -> np.ndarray:
    scale = 255.0 if records.is_images else 1.0
    return np.asarray(records.features, dtype=np.float64).reshape(len(records), -1) / scale


def _squared_distances(known: np.ndarray, made: np.ndarray) -> np.ndarray:
    found = np.empty((len(known), len(made)))
    lengths = (made**2).sum(axis=1)
    for start in range(0, len(known), _ROWS_AT_ONCE):
        some = known[start : start + _ROWS_AT_ONCE]
        squares = (some**2).sum(axis=1)[:, None] + lengths[None, :] - 2 * some @ made.T
        found[start : start + len(some)] = np.maximum(squares, 0.0)
    return found
