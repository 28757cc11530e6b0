"""Finding the last of the claims that an observation contradicts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Rejected = Callable[[Reals], npt.NDArray[np.bool_]]
"""Which of these claims, each weaker than the one before it, are contradicted."""


def largest_rejected(
    rejected: Rejected, least: float, most: float, *, points: int, tolerance: float = 1e-4
) -> float | None:
    """The end of the first unbroken run of rejected claims from `least` on.

    None if even `least` is not rejected. Stopping at the first claim that stands keeps the
    answer valid where a test is not monotone: it exceeds the truth only if the truth itself
    was rejected. `points` claims are tested at once; 1 halves the interval each time.
    """
    if not rejected(np.array([least]))[0]:
        return None
    while most - least > tolerance * max(1.0, least):
        tested = np.linspace(least, most, points + 2)[1:-1]
        stands = np.flatnonzero(~rejected(tested))
        first = int(stands[0]) if len(stands) else points
        grid = np.concatenate([[least], tested, [most]])
        least, most = float(grid[first]), float(grid[first + 1])
    return least
