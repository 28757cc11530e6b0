"""Trade-off curves: inverses that invert, families in order, never more private than proved."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from understudy.audit.trade_off import (
    ApproximateCurves,
    Family,
    GaussianCurves,
    PlannedCurves,
    family_of,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from understudy.privacy.accounting.accountants import price
from understudy.privacy.plan.events import Gaussian, PoissonGaussian
from understudy.privacy.plan.mechanisms import DPSGD, EnsembleVotes, NoisySum
from understudy.privacy.plan.plan import Budget, Plan

LEVELS = np.array([1e-4, 0.01, 0.2, 0.5, 0.9, 0.999])


def backwards(family: Family, parameter: float) -> np.ndarray:
    """The inverse of one curve at all levels."""
    inverse = family.inverse(np.array([parameter]))
    return np.array([inverse(np.array([y]))[0] for y in LEVELS])


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_gaussian_conversions(mu: float) -> None:
    epsilon = gaussian_epsilon(mu, 1e-5)
    assert epsilon == pytest.approx(price([Gaussian(1 / mu)], 1e-5).epsilon, rel=1e-6)
    assert gaussian_delta(mu, epsilon) == pytest.approx(1e-5, rel=1e-6)
    assert gaussian_mu(epsilon, 1e-5) == pytest.approx(mu, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(3000.0, 1e-5), (1e-5, 1e-5), (1e-4, 1e-12)])
def test_claims_of_any_size_have_a_curve(epsilon: float, delta: float) -> None:
    assert gaussian_epsilon(gaussian_mu(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-4)


def test_hardly_any_signal_costs_nothing_at_this_delta() -> None:
    assert gaussian_epsilon(1e-6, 1e-5) == 0
    assert gaussian_epsilon(0.0, 1e-5) == 0


def test_the_gaussian_inverse_inverts() -> None:
    x = backwards(GaussianCurves(1.0), 1.0)
    assert norm.cdf(norm.ppf(x) + 1.0) == pytest.approx(LEVELS)


def test_the_pair_inverse_inverts() -> None:
    epsilon, delta = 1.0, 0.01
    x = backwards(ApproximateCurves(epsilon, delta), epsilon)
    up = np.minimum(delta + math.e * x, 1 - (1 - delta - x) / math.e)
    assert up[1:] == pytest.approx(LEVELS[1:])
    assert x[0] == 0  # below delta nothing has to happen without the unit


@pytest.mark.parametrize(
    "family",
    [
        GaussianCurves(1.0),
        ApproximateCurves(1.0, 1e-5),
        PlannedCurves((PoissonGaussian(2.0, 0.1, 20),)),
    ],
    ids=lambda f: f.name,
)
def test_families_are_ordered(family: Family) -> None:
    """The further along, the less an outcome must happen without the unit."""
    more, less = (backwards(family, p) for p in (0.3, 0.8))
    assert (less <= more).all()
    assert (less < more).any()
    assert family.epsilon(0.3, 1e-5) < family.epsilon(0.8, 1e-5)


def test_a_planned_curve_is_close_to_the_exact_one_and_never_more_private() -> None:
    exact = backwards(GaussianCurves(0.5), 0.5)
    drawn = backwards(PlannedCurves((Gaussian(2.0),)), 0.0)
    assert (drawn <= exact + 1e-9).all()
    assert drawn[1:] == pytest.approx(exact[1:], rel=0.1)


def test_a_planned_curve_goes_through_the_accountants_prices() -> None:
    events = (PoissonGaussian(1.4, 0.17, 100), Gaussian(4.0))
    family = PlannedCurves(events)
    x = family.inverse(np.array([0.0]))(np.array([0.05]))[0]
    for delta in (1e-5, 1e-3):
        epsilon = price(events, delta).epsilon
        assert x >= 0.98 * (0.05 - delta) * math.exp(-epsilon)
    assert family.epsilon(0.0, 1e-5) == pytest.approx(price(events, 1e-5).epsilon)


def test_costs_beyond_floating_point_ask_for_nothing() -> None:
    x = backwards(ApproximateCurves(1.0, 1e-5), 5000.0)
    assert (x == 0).all()


def test_which_family_a_plan_belongs_to() -> None:
    def plan(*mechanisms: NoisySum | DPSGD | EnsembleVotes) -> Plan:
        return Plan(Budget(9.0, 1e-5), mechanisms, 1.0, "some", Plan.new_ident())

    two = family_of(plan(NoisySum("a", 1.0, 2.0), NoisySum("b", 1.0, 2.0)))
    assert isinstance(two, GaussianCurves)
    assert two.epsilon(two.claimed, 1e-5) == pytest.approx(1.0)
    assert family_of(plan(NoisySum("a", 1.0, 2.0, noise="exact"))) == GaussianCurves(two.claimed)
    sampled = family_of(plan(DPSGD("a", 5, 0.1, 1.0, 2.0)))
    assert isinstance(sampled, PlannedCurves)
    assert sampled.claimed == 0
    assert isinstance(family_of(plan()), ApproximateCurves)
