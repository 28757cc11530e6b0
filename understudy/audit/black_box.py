"""Guessing from the released records alone which canaries were among the private ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from understudy.audit.canaries import Scores
from understudy.data.records import Records

_ROWS_AT_ONCE = 256
_NARROW = 0.02
"""The squared width of the kernel, beside the mean squared distance to the nearest record."""

_ROUNDING = 1e-12
"""Of two records' squared lengths: a squared distance below it is that of copies. One grey level
of one pixel is hundreds of times more in images of 64x64 pixels."""

_FEWEST_NEIGHBOURS = 20
"""Below so many released records of its label, a canary is compared with all of them."""


def density_scores(canaries: Records, released: Records) -> Scores:
    """How densely released records lie around each canary: the denser, the likelier it was in.

    A Gaussian kernel over released records of the canary's own label. Images of noise are
    all about equally far from each other, so the kernel is narrow beside the distance from a
    canary to its nearest released record: copies and near copies stand out, and of records
    that are all far the nearest few count. Scores only order canaries.
    """
    nearest = np.concatenate([squares.min(axis=1) for squares in _blocks(canaries, released)])
    width = _NARROW * float(nearest.mean()) or 1.0
    densities = [
        np.log(np.exp(-(squares - squares.min(axis=1, keepdims=True)) / (2 * width)).mean(axis=1))
        for squares in _blocks(canaries, released)
    ]
    return np.asarray(np.concatenate(densities) - nearest / (2 * width))


def _blocks(canaries: Records, released: Records) -> Iterator[Scores]:
    """Squared distances, some canaries at a time, to the released records they are held against.

    Memory grows with the records, never with canaries times records.
    """
    known, made = _flat(canaries), _flat(released)
    lengths = (made**2).sum(axis=1)
    of_canaries, of_released = np.asarray(canaries.labels), np.asarray(released.labels)
    for start in range(0, len(known), _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        both = (known[some] ** 2).sum(axis=1)[:, None] + lengths
        squares = both - 2 * known[some] @ made.T
        apart = np.where(squares <= _ROUNDING * both, 0.0, squares)
        other_label = of_canaries[some, None] != of_released
        enough = (~other_label).sum(axis=1) >= _FEWEST_NEIGHBOURS
        yield np.where(other_label & enough[:, None], np.inf, apart)


def _flat(records: Records) -> Scores:
    scale = 255.0 if records.is_images else 1.0
    return np.asarray(records.features, dtype=np.float64).reshape(len(records), -1) / scale
