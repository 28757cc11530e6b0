"""Local mechanisms: every record leaves with noise of its own."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
import torch

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.privacy.sums.clipping import clip_rows

_ROUNDINGS = 16
_TOLERANCE = 1e-12


@dataclass(frozen=True)
class LocalNoise:
    """Each record's features, clipped to L2 norm `radius`, with Gaussian noise added.

    Guarantee, per record under replace-one: two clipped records differ by at most
    `2 * radius`; the door adds noise of standard deviation `sigma * 2 * radius` to every
    coordinate. Event: one local Gaussian with multiplier `sigma`. Attributes stay behind.
    """

    radius: float
    sigma: float

    @classmethod
    def for_budget(cls, radius: float, epsilon: float, delta: float) -> LocalNoise:
        """The least noise with which one release of a record is (epsilon, delta)-private.

        Fixed by the declared radius and the budget alone: a noise level that is learned from
        records, as the filter's paper does, would void the guarantee.
        """
        return cls(radius, gaussian_multiplier(epsilon, delta))

    def __call__(self, records: Records) -> Records:
        del records
        raise UserError("a local mechanism draws its noise behind the door: use transform.")

    def clipped(self, records: Records) -> torch.Tensor:
        """Features as float, each record's vector at L2 norm at most `radius`."""
        scale = 255.0 if records.is_images else 1.0
        features = torch.from_numpy(np.asarray(records.features, dtype=np.float32) / scale)
        clipped, _ = clip_rows(features.reshape(len(features), -1), self.radius)
        return clipped.reshape(features.shape)


def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """The least noise for one Gaussian release: standard deviation over L2 sensitivity.

    Guarantee: Gaussian noise of this multiplier (or more) is (epsilon, delta)-private, by the
    exact condition of Balle and Wang (2018), for every epsilon above 0; the value is rounded
    up: by less than 1e-9 of itself for epsilon from 0.01 and delta from 1e-12, and by more for
    tiny ones, where floats cannot tell two tails apart.

    >>> round(gaussian_multiplier(1.0, 1e-5), 4)
    3.7306
    """
    _check_budget(epsilon, delta)
    low, high = 0.0, 1.0
    while _delta_of(high, epsilon) > delta:
        low, high = high, 2 * high
    while high - low > _TOLERANCE * high:
        middle = (low + high) / 2
        if _delta_of(middle, epsilon) > delta:
            low = middle
        else:
            high = middle
    return high


def classical_multiplier(epsilon: float, delta: float) -> float:
    """The multiplier sqrt(2 log(1.25 / delta)) / epsilon, proved for epsilon below 1 only."""
    _check_budget(epsilon, delta)
    if epsilon >= 1:
        raise UserError(
            f"the classical Gaussian mechanism is proved for epsilon below 1, not {epsilon:g}; "
            "use the analytic one."
        )
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def _delta_of(sigma: float, epsilon: float) -> float:
    """The delta of a Gaussian release with multiplier sigma at epsilon, never too small.

    It is the difference of two nearly equal tails; what rounding can do to either is added.
    """
    far, near = 1 / (2 * sigma) + epsilon * sigma, 1 / (2 * sigma) - epsilon * sigma
    upper, lower = _log_normal_tail(-near), _log_normal_tail(far)
    kept, taken = math.exp(upper), math.exp(epsilon + lower)
    # An error of x in a logarithm is one of x times the value: the logarithms' own rounding, and
    # that of the places where the tails begin, which have slopes of about |place| + 1.
    unsure = sys.float_info.epsilon * _ROUNDINGS
    doubt = kept * (1 - upper + near * near) + taken * (1 + epsilon - lower + far * far)
    return kept - taken + unsure * doubt


def _log_normal_tail(x: float) -> float:
    """log P(N(0, 1) > x), also where the probability itself is too small for a float."""
    return float(torch.special.log_ndtr(torch.tensor(-x, dtype=torch.float64)))


def _check_budget(epsilon: float, delta: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise UserError(f"epsilon must be a positive, finite number, not {epsilon!r}.")
    if not 0 < delta < 1:
        raise UserError(f"delta must lie between 0 and 1, not {delta!r}.")
