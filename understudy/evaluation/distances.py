"""Distances between two sets of feature vectors, as pure functions of arrays.

All arithmetic is in double precision. Rows are records, columns are features; the first
set is the synthetic one and the second the real one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.errors import UserError

Features = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FrechetEstimate:
    """A Fréchet distance and its asymptotic standard error."""

    value: float
    standard_error: float


def frechet_distance(first: npt.ArrayLike, second: npt.ArrayLike) -> FrechetEstimate:
    """The squared Wasserstein-2 distance between the normal laws fitted to two sets.

    `|m1 - m2|^2 + tr(S1 + S2 - 2 (S1^½ S2 S1^½)^½)` with unbiased covariances. The trace of
    the root is the sum of the singular values of `F1ᵀ F2`, where `S = F Fᵀ` comes from a
    symmetric eigendecomposition: no root of a non-symmetric matrix is taken, so the result
    is real, and covariances without full rank need no special care.

    The standard error is that of the first-order expansion of the distance in the two
    empirical laws (its influence function), so it covers the draw of both sets. The estimate
    itself is biased upwards for small sets; only distances at equal counts compare.
    """
    x, y = checked_pair(first, second, least=2)
    mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
    factor_x, factor_y = _factor(x - mean_x), _factor(y - mean_y)
    left, root, right = np.linalg.svd(factor_x.T @ factor_y, full_matrices=False)
    gap = mean_x - mean_y
    value = float(gap @ gap + (factor_x**2).sum() + (factor_y**2).sum() - 2 * root.sum())
    variance = 0.0
    for centred, factor, basis, shift in (
        (x - mean_x, factor_x, left, gap),
        (y - mean_y, factor_y, right.T, -gap),
    ):
        influence = _influence(centred, factor, basis, root, shift)
        variance += float(influence.var(ddof=1)) / len(centred)
    return FrechetEstimate(max(value, 0.0), variance**0.5)


def _factor(centred: Features) -> Features:
    """`F` with orthogonal columns and `F Fᵀ` the covariance; null directions are dropped."""
    values, vectors = np.linalg.eigh(centred.T @ centred / (len(centred) - 1))
    floor = max(values[-1], 0.0) * len(values) * np.finfo(np.float64).eps
    kept = values > floor
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def _influence(
    centred: Features, factor: Features, basis: Features, root: Features, shift: Features
) -> Features:
    """How much each record moves the distance, to first order.

    With `u` a centred record and `T` the optimal linear map between the fitted laws this is
    `2 shift·u + |u|² - uᵀTu` up to a constant. In the whitened coordinates `z = F⁺u` the last
    term is `zᵀ basis diag(root) basisᵀ z`, which stays tame where the covariance is tiny.
    """
    whitened = (centred @ factor) / (factor**2).sum(axis=0)
    transported = ((whitened @ basis) ** 2) @ root
    return np.asarray(2 * centred @ shift + (centred**2).sum(axis=1) - transported)


def kernel_distances(
    first: npt.ArrayLike, second: npt.ArrayLike, block: int, least_blocks: int = 10
) -> Features:
    """Unbiased squared MMD with the kernel `(x·y/d + 1)³`, one value for each block.

    Both sets are cut, in the order given, into disjoint blocks of equal size: at most
    `block` records, and fewer where that leaves less than `least_blocks` blocks. Blocks are
    independent when the records are, so the mean is unbiased whatever the block size and
    its spread gives an honest interval; subsets drawn anew from the same records overlap
    and would look more certain than they are.
    """
    x, y = checked_pair(first, second, least=2 * least_blocks)
    count = min(len(x), len(y))
    size = min(block, count // least_blocks)
    starts = range(0, count - size + 1, size)
    return np.array([_squared_mmd(x[i : i + size], y[i : i + size]) for i in starts])


def _squared_mmd(x: Features, y: Features) -> float:
    count = len(x)
    within = sum(
        (kernel.sum() - np.trace(kernel)) / (count * (count - 1))
        for kernel in (_cubic_kernel(x, x), _cubic_kernel(y, y))
    )
    return float(within - 2 * _cubic_kernel(x, y).mean())


def _cubic_kernel(x: Features, y: Features) -> Features:
    return np.asarray((x @ y.T / x.shape[1] + 1) ** 3)


def checked_pair(
    first: npt.ArrayLike, second: npt.ArrayLike, least: int
) -> tuple[Features, Features]:
    """Both sets in double precision; what cannot be compared is refused in a sentence."""
    x, y = (np.asarray(side, dtype=np.float64) for side in (first, second))
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise UserError(
            f"two sets of features must be matrices with equally many columns, "
            f"not {list(x.shape)} and {list(y.shape)}."
        )
    if min(len(x), len(y)) < least:
        raise UserError(
            f"this distance needs at least {least} records on each side, not {len(x)} and {len(y)}."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise UserError("the features hold values that are not finite numbers.")
    return x, y
