"""Iterative stratification for records with several annotations each.

The order is that of Sechidis, Tsoumakas and Vlahavas, "On the stratification of multi-label
data" (ECML PKDD 2011): records of the rarest class first, while there is still room to spread
them. Their rule sends a record to the part that lacks most of that one class. Here every record
has a class of *every* attribute, and that rule would let the common classes drift; so a record
goes where it most lowers the chi-square distance from proportion over all its classes, in which
rare classes weigh most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from understudy.data.records import Array

Ints = npt.NDArray[np.int64]


def iterative_stratification(
    count: int, columns: Sequence[Array], shares: Sequence[float], seed: int
) -> Ints:
    """The part, an index into `shares`, of each of `count` records.

    columns: one array of class codes per attribute.
    """
    order = np.random.default_rng(seed).permutation(count)
    classes = _global_classes(columns, count)[order]
    placed = np.full(count, -1, np.int64)
    members = np.bincount(classes.ravel())
    target = [[share * float(n) for n in members] for share in shares]
    lacking = [list(wanted) for wanted in target]
    rows = classes.tolist()

    while (rarest := _rarest_class(classes, placed, len(members))) is not None:
        for i in np.flatnonzero((placed < 0) & (classes == rarest).any(axis=1)).tolist():
            gains = [_gain(rows[i], *part) for part in zip(lacking, target, strict=True)]
            placed[i] = part = gains.index(max(gains))
            for one in rows[i]:
                lacking[part][one] -= 1.0
    parts = np.empty(count, np.int64)
    parts[order] = placed
    return parts


def _global_classes(columns: Sequence[Array], count: int) -> Ints:
    """[N, 1 + A] codes that differ between attributes; first one class that all belong to."""
    start = 1
    shifted = [np.zeros(count, np.int64)]
    for column in columns:
        shifted.append(column.astype(np.int64) + start)
        start += int(column.max(initial=0)) + 1
    return np.stack(shifted, axis=1)


def _gain(row: Sequence[int], lacking: Sequence[float], target: Sequence[float]) -> float:
    """By how much the chi-square distance of a part falls if it takes this record."""
    return sum((2.0 * lacking[one] - 1.0) / target[one] for one in row)


def _rarest_class(classes: Ints, placed: Ints, total: int) -> int | None:
    """The class with fewest records still to be placed, of those that have any."""
    left = np.bincount(classes[placed < 0].ravel(), minlength=total)
    if not left.any():
        return None
    return int(np.where(left > 0, left, np.iinfo(np.int64).max).argmin())
