"""How far a filter moves latents, and how it is kept within a budget.

A filter turns N(m, S) into N(m + shift, S + A A'), where S is the reference covariance of the
encoder's latents (diagonal) and A the matrix of its noise. In units of S and in the directions
of A A' every divergence here is a sum over directions, so that its value at any scale of the
filter costs one eigenvalue problem, and a filter is brought into its budget by bisection.

The distortion of a filter is the mean over records of the divergence between what it makes of a
record's Gaussian and that Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from understudy.errors import UserError, did_you_mean

Numbers = npt.NDArray[np.float64]

_HALVINGS = 60
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class Perturbation:
    """What a filter does to Gaussians, in units of the reference covariance.

    spread: eigenvalues of the added covariance, `[d]`.
    shifts: squared displacements of the mean along the same directions, `[cases, d]`.
    weights: the share of records with each shift, `[cases]`, summing to 1.
    length: half the mean squared displacement in the latents' own units.
    """

    spread: Numbers
    shifts: Numbers
    weights: Numbers
    length: float

    @staticmethod
    def of(
        noise: npt.ArrayLike, shifts: npt.ArrayLike, weights: npt.ArrayLike, variances: Numbers
    ) -> Perturbation:
        """From a filter's noise matrix `[d, k]`, its shifts `[cases, d]` and the reference."""
        matrix, moves = np.asarray(noise, np.float64), np.asarray(shifts, np.float64)
        shares = np.asarray(weights, np.float64)
        shares = shares / shares.sum()
        deviations = np.sqrt(variances)
        white = matrix / deviations[:, None]
        spread, directions = np.linalg.eigh(white @ white.T)
        squares = ((moves / deviations) @ directions) ** 2
        length = (matrix**2).sum() / 2 + shares @ (moves**2).sum(axis=1) / 2
        return Perturbation(np.maximum(spread, 0.0), squares, shares, float(length))

    def scaled(self, scale: float) -> Perturbation:
        """The same filter with shifts and noise multiplied by `scale`."""
        square = scale**2
        return Perturbation(
            self.spread * square, self.shifts * square, self.weights, self.length * square
        )


def kl(change: Perturbation) -> float:
    """KL(filtered || raw), mean over records."""
    noise = (change.spread - np.log1p(change.spread)).sum()
    return float(noise + change.weights @ change.shifts.sum(axis=1)) / 2


def reverse_kl(change: Perturbation) -> float:
    """KL(raw || filtered), mean over records."""
    wide = 1 + change.spread
    noise = (np.log(wide) - change.spread / wide).sum()
    return float(noise + change.weights @ (change.shifts / wide).sum(axis=1)) / 2


def chi_square(change: Perturbation) -> float:
    """Half the mean of (filtered / raw - 1)^2 under raw; infinite from a spread of 1 on."""
    left = 1 - change.spread
    if left.min() <= 0:
        return math.inf
    logs = (change.shifts / left).sum(axis=1)
    logs = logs - (np.log1p(change.spread) + np.log(left)).sum() / 2
    if logs.max() > _LARGEST_EXPONENT:
        return math.inf
    return float(change.weights @ np.expm1(logs)) / 2


def l2(change: Perturbation) -> float:
    """Half the mean squared Euclidean distance between filtered and raw latents."""
    return change.length


DIVERGENCES: Mapping[str, Callable[[Perturbation], float]] = MappingProxyType(
    {"kl": kl, "reverse-kl": reverse_kl, "chi-square": chi_square, "l2": l2}
)


@dataclass(frozen=True)
class Distortion:
    """A budget: the named divergence of a filter is at most `budget`."""

    kind: str = "kl"
    budget: float = 3.0

    def __post_init__(self) -> None:
        if self.kind not in DIVERGENCES:
            raise UserError(f"no divergence {self.kind!r}; {did_you_mean(self.kind, DIVERGENCES)}")
        if not math.isfinite(self.budget):
            raise UserError(
                f"the distortion budget must be a finite, positive number, not {self.budget!r}."
            )
        if self.budget <= 0:
            raise UserError(
                f"the distortion budget must be a positive number, not {self.budget!r}: "
                "a filter with none changes nothing, so send the raw latents and say so."
            )

    def measure(self, change: Perturbation) -> float:
        return DIVERGENCES[self.kind](change)

    def largest_scale(self, change: Perturbation, tolerance: float = 1e-9) -> float:
        """The largest scale up to 1 at which the budget is kept; every divergence grows with it.

        Rounded down, so that the measured value is never above the budget; `tolerance` is how
        much of the scale may be lost by that.
        """
        if self.measure(change) <= self.budget:
            return 1.0
        return _largest(change, self, 1.0, tolerance)


def noise_within(distortion: Distortion, variances: Numbers) -> float:
    """The standard deviation of isotropic noise that uses the whole budget.

    What the Gaussian mechanism may do at the same distortion as a filter.
    """
    none = np.zeros((1, len(variances)))
    unit = Perturbation.of(np.eye(len(variances)), none, np.ones(1), variances)
    most = 1.0
    while distortion.measure(unit.scaled(most)) < distortion.budget:
        most *= 2
    return _largest(unit, distortion, most, 1e-12)


def _largest(change: Perturbation, distortion: Distortion, most: float, tolerance: float) -> float:
    """By bisection: the largest scale below `most`, where the budget is not kept."""
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        if high - low <= tolerance * high:
            break
        middle = (low + high) / 2
        if distortion.measure(change.scaled(middle)) <= distortion.budget:
            low = middle
        else:
            high = middle
    return low
