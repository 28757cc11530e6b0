"""Divergences between Gaussians in closed form, and the corrected Proposition 1.

The paper (Chen et al. 2019, "Distributed generation of privacy preserving data with user
customization") has slips in three of its formulas; these are the right ones, and the tests hold
them against quadrature:

- eq. (16) sums variances where the logarithm of a determinant sums logarithms;
- its chi-square expression is bounded by 1/2; the true one grows without limit;
- its implementation bounds twice the KL divergence of its eq. (10).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from understudy.errors import UserError
from understudy.privacy.local.gaussian import classical_multiplier, gaussian_multiplier


@dataclass(frozen=True)
class Normal:
    """A Gaussian with a full covariance matrix; computed with in float64."""

    mean: torch.Tensor
    covariance: torch.Tensor

    def __post_init__(self) -> None:
        width = self.mean.shape[0]
        if self.mean.ndim != 1 or self.covariance.shape != (width, width):
            raise UserError(
                "a Gaussian needs a mean [d] and a covariance [d, d], not "
                f"{list(self.mean.shape)} and {list(self.covariance.shape)}."
            )


def kl_divergence(p: Normal, q: Normal) -> float:
    """KL(p || q), in nats: the mean under p of log p/q.

    >>> one = torch.ones(1), torch.ones(1, 1)
    >>> kl_divergence(Normal(0 * one[0], one[1]), Normal(*one))
    0.5
    """
    root = torch.linalg.cholesky(q.covariance.double())
    shift = (p.mean - q.mean).double()
    spread = torch.cholesky_solve(p.covariance.double(), root).trace()
    far = torch.cholesky_solve(shift[:, None], root)[:, 0] @ shift
    logs = torch.logdet(q.covariance.double()) - torch.logdet(p.covariance.double())
    return float(logs - len(shift) + spread + far) / 2


def chi_square_divergence(p: Normal, q: Normal) -> float:
    """Half the mean under q of (p/q - 1)^2; infinite unless twice q's covariance exceeds p's.

    For equal covariances it is (exp(2s) - 1) / 2, with s the KL divergence.
    """
    wide, narrow = p.covariance.double(), q.covariance.double()
    gap = 2 * narrow - wide
    if float(torch.linalg.eigvalsh(gap).min()) <= 0:
        return math.inf
    shift = (p.mean - q.mean).double()
    inverse = 2 * torch.linalg.inv(wide) - torch.linalg.inv(narrow)
    logs = torch.logdet(narrow) / 2 - torch.logdet(wide) - torch.logdet(inverse) / 2
    return math.expm1(float(logs + shift @ torch.linalg.solve(gap, shift))) / 2


def gaussian_mechanism_distortion(deviation: float, variances: Sequence[float]) -> float:
    """KL(z + noise || z) for z with these independent variances and noise N(0, deviation^2 I).

    The corrected eq. (16): half the sum of r - log(1 + r), with r = deviation^2 / variance.
    """
    ratios = [deviation**2 / _positive(variance) for variance in variances]
    return math.fsum(r - math.log1p(r) for r in ratios) / 2


def least_budget_for_local_privacy(
    epsilon: float,
    delta: float,
    radius: float,
    variances: Sequence[float],
    *,
    classical: bool = False,
) -> float:
    """The corrected Proposition 1: the smallest KL budget that admits the Gaussian mechanism.

    Guarantee: a budget of at least this value admits noise with which every record, clipped
    to L2 norm `radius`, is released with (epsilon, delta)-privacy, local, per record under
    replace-one: sensitivity `2 * radius`, noise of `gaussian_multiplier(epsilon, delta)` times
    that. A smaller budget admits no such noise, because the distortion grows with the noise.

    classical: the multiplier sqrt(2 log(1.25 / delta)) / epsilon of the paper, which is proved
        for epsilon below 1 only and is never less noise than needed there.
    """
    multiplier = classical_multiplier if classical else gaussian_multiplier
    return gaussian_mechanism_distortion(
        multiplier(epsilon, delta) * 2 * _positive(radius), variances
    )


def _positive(value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise UserError(f"a variance or radius must be a positive number, not {value!r}.")
    return value
