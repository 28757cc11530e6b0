"""The spectral forms are the closed forms, grow with scale, and budgets are met."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from understudy.errors import UserError
from understudy.filters.distortion import DIVERGENCES, Distortion, Perturbation, noise_within
from understudy.filters.divergences import (
    Normal,
    chi_square_divergence,
    gaussian_mechanism_distortion,
    kl_divergence,
)

RNG = np.random.default_rng(3)
VARIANCES = np.array([0.5, 1.0, 2.0, 1.4])
NOISE = 0.3 * RNG.normal(size=(4, 6))
SHIFTS = RNG.normal(size=(3, 4))
COUNTS = np.array([5.0, 3.0, 2.0])


def change(noise: np.ndarray = NOISE, shifts: np.ndarray = SHIFTS) -> Perturbation:
    return Perturbation.of(noise, shifts, COUNTS, VARIANCES)


def exact(kind: str) -> float:
    """The mean over cases of the general closed form."""
    raw = torch.diag(torch.from_numpy(VARIANCES))
    wide = raw + torch.from_numpy(NOISE @ NOISE.T)
    total = 0.0
    for shift, share in zip(SHIFTS, COUNTS / COUNTS.sum(), strict=True):
        old = Normal(torch.zeros(4, dtype=torch.float64), raw)
        new = Normal(torch.from_numpy(shift), wide)
        values = {
            "kl": lambda o=old, n=new: kl_divergence(n, o),
            "reverse-kl": lambda o=old, n=new: kl_divergence(o, n),
            "chi-square": lambda o=old, n=new: chi_square_divergence(n, o),
            "l2": lambda s=shift: ((NOISE**2).sum() + (s**2).sum()) / 2,
        }
        total += share * values[kind]()
    return total


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_it_is_the_mean_of_the_closed_form(kind: str) -> None:
    assert Distortion(kind, 1.0).measure(change()) == pytest.approx(exact(kind), abs=1e-6, rel=1e-9)


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_it_grows_with_the_scale(kind: str) -> None:
    values = [Distortion(kind, 1.0).measure(change().scaled(s)) for s in np.linspace(0, 1.2, 13)]
    assert values[0] == pytest.approx(0.0, abs=1e-12)
    assert all(a < b or b == math.inf for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("kind", DIVERGENCES)
@pytest.mark.parametrize("budget", [1e-3, 0.3, 1.0])
def test_the_largest_scale_meets_the_budget_from_below(kind: str, budget: float) -> None:
    limit = Distortion(kind, budget)
    large = change(5 * NOISE, 5 * SHIFTS)
    used = limit.measure(large.scaled(limit.largest_scale(large)))
    assert 0.99 * budget <= used <= budget, "violation of the budget"


def test_a_filter_within_its_budget_stays_as_it_is() -> None:
    assert Distortion("kl", 1e6).largest_scale(change()) == 1.0


def test_chi_square_beyond_its_range_is_infinite() -> None:
    assert Distortion("chi-square", 1.0).measure(change(np.eye(4) * 3)) == math.inf
    assert Distortion("chi-square", 1.0).measure(change(shifts=100 * SHIFTS)) == math.inf


def test_isotropic_noise_that_uses_the_whole_budget() -> None:
    deviation = noise_within(Distortion("kl", 2.0), VARIANCES)
    used = gaussian_mechanism_distortion(deviation, VARIANCES.tolist())
    assert used == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("budget", [0.0, -1.0, math.nan, math.inf])
def test_a_budget_of_nothing_is_refused(budget: float) -> None:
    with pytest.raises(UserError, match="positive number"):
        Distortion("kl", budget)


def test_an_unknown_divergence_is_answered_with_near_ones() -> None:
    with pytest.raises(UserError, match="chi-square"):
        Distortion("chi-squared", 1.0)
