"""Closed forms against quadrature, and the corrected Proposition 1."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from understudy.errors import UserError
from understudy.filters.divergences import (
    Normal,
    chi_square_divergence,
    gaussian_mechanism_distortion,
    kl_divergence,
    least_budget_for_local_privacy,
)
from understudy.privacy.local.gaussian import classical_multiplier, gaussian_multiplier

ONE_DIMENSION = [
    (0.0, 1.0, 0.0, 1.0),
    (1.0, 1.0, 0.0, 1.0),
    (0.3, 1.7, -0.4, 1.1),
    (2.0, 0.4, 1, 3),
]


def normal(*numbers: float) -> Normal:
    mean, variance = torch.tensor([numbers[0]]), torch.tensor([[numbers[1]]])
    return Normal(mean.double(), variance.double())


def density(mean: float, variance: float) -> Callable[[float], float]:
    scale = math.sqrt(2 * math.pi * variance)
    return lambda x: math.exp(-((x - mean) ** 2) / (2 * variance)) / scale


def integral(f: Callable[[float], float]) -> float:
    return float(quad(f, -25, 25, epsabs=1e-12, epsrel=1e-12, limit=500)[0])


@pytest.mark.parametrize("numbers", ONE_DIMENSION)
def test_divergences_are_what_quadrature_gives(numbers: tuple[float, ...]) -> None:
    p, q = density(*numbers[:2]), density(*numbers[2:])
    logs = lambda x: (  # noqa: E731
        (x - numbers[2]) ** 2 / (2 * numbers[3])
        - (x - numbers[0]) ** 2 / (2 * numbers[1])
        + math.log(numbers[3] / numbers[1]) / 2
    )
    found = normal(*numbers[:2]), normal(*numbers[2:])
    assert kl_divergence(*found) == pytest.approx(integral(lambda x: p(x) * logs(x)), abs=1e-6)
    squares = integral(lambda x: q(x) * math.expm1(logs(x)) ** 2 / 2)
    assert chi_square_divergence(*found) == pytest.approx(squares, rel=1e-6, abs=1e-6)


def test_two_dimensions_with_correlation() -> None:
    """A product grid; the covariance is not diagonal, so the directions matter."""
    first = Normal(torch.tensor([0.3, -0.2]), torch.tensor([[1.0, 0.4], [0.4, 0.8]]))
    second = Normal(torch.tensor([0.0, 0.1]), torch.tensor([[1.2, -0.1], [-0.1, 0.9]]))
    x = np.linspace(-12, 12, 1601)
    points = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    logs = [_log_density(points, n) for n in (first, second)]
    cell = (x[1] - x[0]) ** 2
    kl = float((np.exp(logs[0]) * (logs[0] - logs[1])).sum() * cell)
    chi = float((np.exp(logs[1]) * np.expm1(logs[0] - logs[1]) ** 2).sum() * cell) / 2
    assert kl_divergence(first, second) == pytest.approx(kl, abs=1e-6)
    assert chi_square_divergence(first, second) == pytest.approx(chi, abs=1e-6)


def _log_density(points: np.ndarray, n: Normal) -> np.ndarray:
    gap = points - n.mean.double().numpy()
    precision = np.linalg.inv(n.covariance.double().numpy())
    square = np.einsum("...i,ij,...j", gap, precision, gap)
    logdet = np.linalg.slogdet(n.covariance.double().numpy())[1]
    return -square / 2 - logdet / 2 - math.log(2 * math.pi)


def test_equal_covariances_have_the_short_forms_and_not_the_papers() -> None:
    found = chi_square_divergence(normal(1, 1), normal(0, 1))
    assert found == pytest.approx((math.exp(1) - 1) / 2)
    assert found == pytest.approx(0.8591, abs=1e-4)
    assert abs(found - (math.exp(-0.5) - 1) ** 2 / 2) > 0.7


def test_chi_square_is_infinite_where_the_integral_is() -> None:
    assert chi_square_divergence(normal(0, 2.0), normal(0, 1.0)) == math.inf
    assert chi_square_divergence(normal(0, 1.99), normal(0, 1.0)) < math.inf


def test_gaussian_mechanism_distortion_is_a_divergence() -> None:
    variances, deviation = [0.5, 1.3, 2.0], 1.1
    raw = torch.diag(torch.tensor(variances, dtype=torch.float64))
    noisy = Normal(torch.zeros(3), raw + deviation**2 * torch.eye(3, dtype=torch.float64))
    exact = kl_divergence(noisy, Normal(torch.zeros(3), raw))
    assert gaussian_mechanism_distortion(deviation, variances) == pytest.approx(exact, abs=1e-9)
    papers = deviation**2 / 2 * sum(1 / v - 1 for v in variances)
    assert abs(papers - exact) > 0.1


def test_the_papers_expression_is_negative_for_wide_latents() -> None:
    assert gaussian_mechanism_distortion(1.0, [2.0, 3.0]) > 0 > sum(1 / v - 1 for v in (2.0, 3.0))


def test_the_corrected_proposition() -> None:
    """The least budget admits exactly the noise that is needed, and less budget does not."""
    variances, epsilon, delta, radius = [1.0, 1.5], 2.0, 1e-5, 3.0
    least = least_budget_for_local_privacy(epsilon, delta, radius, variances)
    needed = gaussian_multiplier(epsilon, delta) * 2 * radius
    assert gaussian_mechanism_distortion(needed, variances) == pytest.approx(least, rel=1e-12)
    assert gaussian_mechanism_distortion(0.99 * needed, variances) < least
    more_private = least_budget_for_local_privacy(epsilon / 2, delta, radius, variances)
    assert more_private > least


def test_the_classical_form_is_for_small_epsilon_and_never_cheaper() -> None:
    analytic = least_budget_for_local_privacy(0.5, 1e-5, 1.0, [1.0])
    classical = least_budget_for_local_privacy(0.5, 1e-5, 1.0, [1.0], classical=True)
    ratio = classical_multiplier(0.5, 1e-5) ** 2 * 4
    assert classical == pytest.approx((ratio - math.log1p(ratio)) / 2)
    assert classical > analytic
    with pytest.raises(UserError, match="below 1"):
        least_budget_for_local_privacy(2.0, 1e-5, 1.0, [1.0], classical=True)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_nonsense_is_refused(bad: float) -> None:
    with pytest.raises(UserError, match="positive number"):
        gaussian_mechanism_distortion(1.0, [1.0, bad])
    with pytest.raises(UserError, match="positive number"):
        least_budget_for_local_privacy(1.0, 1e-5, bad, [1.0])
