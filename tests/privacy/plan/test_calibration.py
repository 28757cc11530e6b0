"""Calibrated plans stay within budget, and use it."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.privacy.plans import random_plan
from understudy.errors import UserError
from understudy.privacy.accounting.accountants import price
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    EnsembleVotes,
    Mechanism,
    NoisyHistogram,
    NoisySum,
    Reveal,
)
from understudy.privacy.plan.plan import Budget, Plan

BUDGET = Budget(1.0, 1e-5)


def assert_within_budget(plan: Plan) -> None:
    """The plan's own events, priced again: at most the target, at least 0.99 of it."""
    cost = price(plan.events(), plan.delta)
    assert cost.epsilon == plan.epsilon
    assert cost.accountant == plan.accountant
    assert 0.99 * plan.budget.epsilon <= cost.epsilon <= plan.budget.epsilon


@pytest.mark.parametrize("seed", range(10))
def test_random_plans_are_calibrated(seed: int) -> None:
    case = random_plan(random.Random(seed))
    assert_within_budget(case.budget.calibrate(case.spend))


@pytest.mark.audit
@pytest.mark.skipif(
    os.environ.get("UNDERSTUDY_AUDIT") != "1", reason="200 plans: make audit (UNDERSTUDY_AUDIT=1)"
)
@pytest.mark.parametrize("first", [1000, 1050, 1100, 1150])
def test_two_hundred_random_plans_are_calibrated(first: int) -> None:
    for seed in range(first, first + 50):
        case = random_plan(random.Random(seed))
        assert_within_budget(case.budget.calibrate(case.spend))


def test_the_check_itself_catches_too_little_noise_and_a_wrong_figure() -> None:
    plan = BUDGET.calibrate(lambda sigma: [NoisySum("sum", clip=1.0, sigma=sigma)])
    assert_within_budget(plan)
    (mechanism,) = plan.mechanisms
    assert isinstance(mechanism, NoisySum)
    for factor in (0.98, 1.02):
        shifted = replace(mechanism, sigma=factor * mechanism.sigma)
        with pytest.raises(AssertionError):
            assert_within_budget(replace(plan, mechanisms=(shifted,)))
    with pytest.raises(AssertionError):
        assert_within_budget(replace(plan, epsilon=0.9 * plan.epsilon))


@pytest.mark.parametrize(
    ("epsilon", "sigma"), [(10.0, 0.4999), (1.0, 3.7306), (0.2, 16.304)], ids=str
)
def test_one_gaussian_needs_the_published_sigma(epsilon: float, sigma: float) -> None:
    plan = Budget(epsilon, 1e-5).calibrate(lambda s: [NoisySum("sum", clip=2.0, sigma=s)])
    (mechanism,) = plan.mechanisms
    assert isinstance(mechanism, NoisySum)
    assert sigma <= mechanism.sigma * 1.0001
    assert mechanism.sigma < 1.01 * sigma


def test_feta_queries_are_charged_before_training() -> None:
    """Five fixed queries cost 0.165 alone; the training takes what is left of 1."""

    def spend(sigma: float) -> list[Mechanism]:
        queries = DPSGD("centres", steps=5, rate=0.1, clip=1.0, sigma=5.0)
        return [queries, DPSGD("training", steps=500, rate=0.05, clip=1.0, sigma=sigma)]

    with_queries = BUDGET.calibrate(spend)
    without = BUDGET.calibrate(lambda sigma: spend(sigma)[1:])
    assert_within_budget(with_queries)
    assert with_queries.mechanisms[0] == spend(1.0)[0]
    more, less = with_queries.mechanisms[1], without.mechanisms[0]
    assert isinstance(more, DPSGD)
    assert isinstance(less, DPSGD)
    assert more.sigma > less.sigma


def test_calibrated_plan_holds_by_the_second_accountant() -> None:
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    plan = BUDGET.calibrate(
        lambda sigma: [DPSGD("training", steps=300, rate=0.02, clip=1.0, sigma=sigma)]
    )
    (training,) = plan.mechanisms
    assert isinstance(training, DPSGD)
    release = PoissonSubsampledGaussianMechanism(
        noise_multiplier=training.sigma, sampling_probability=training.rate
    )
    other = PRVAccountant(
        prvs=[release], max_self_compositions=[300], eps_error=0.01, delta_error=1e-8
    )
    _, estimate, _ = other.compute_epsilon(1e-5, [300])
    assert 0.985 <= estimate <= 1.0


def test_few_prices_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counting(events: Sequence[object], delta: float) -> object:
        asked.append(len(events))
        return price(events, delta)  # type: ignore[arg-type]

    def spend(sigma: float) -> list[Mechanism]:
        return [
            DPSGD("training", steps=2000, rate=0.01, clip=1.0, sigma=sigma),
            NoisyHistogram("labels", bins=10, sigma=20.0),
        ]

    monkeypatch.setattr("understudy.privacy.plan.calibration.price", counting)
    BUDGET.calibrate(spend)
    assert asked.count(2) <= 8  # the first guess prices single Gaussians only


def test_fixed_parts_beyond_the_budget_are_an_error() -> None:
    def spend(sigma: float) -> list[Mechanism]:
        return [NoisySum("sum", 1.0, sigma), NoisyHistogram("counts", bins=10, sigma=1.0)]

    with pytest.raises(UserError, match=r"fixed parts of the plan already cost 4\.37"):
        BUDGET.calibrate(spend)


def test_a_fixed_part_that_leaves_almost_nothing_still_calibrates() -> None:
    fixed = 3.74  # costs 0.997 alone

    def spend(sigma: float) -> list[Mechanism]:
        return [NoisySum("sum", 1.0, sigma), NoisyHistogram("counts", bins=10, sigma=fixed)]

    assert_within_budget(BUDGET.calibrate(spend))


def test_a_reveal_under_a_finite_budget_is_an_error() -> None:
    def spend(sigma: float) -> list[Mechanism]:
        return [NoisySum("sum", 1.0, sigma), Reveal("look", reason="to see")]

    with pytest.raises(UserError, match="reveals records"):
        BUDGET.calibrate(spend)


def test_a_plan_without_mechanisms_costs_nothing() -> None:
    plan = BUDGET.calibrate(lambda _sigma: [])
    assert plan.epsilon == 0.0
    assert plan.mechanisms == ()


def test_a_plan_that_ignores_sigma_is_taken_as_it_is() -> None:
    fixed = NoisySum("sum", clip=1.0, sigma=10.0)
    plan = BUDGET.calibrate(lambda _sigma: [fixed])
    assert plan.mechanisms == (fixed,)
    assert plan.epsilon == price(plan.events(), plan.delta).epsilon < 1.0


def test_a_cost_that_jumps_across_the_target_is_an_error() -> None:
    def spend(sigma: float) -> list[Mechanism]:
        return [EnsembleVotes("votes", shards=10, queries=10 if sigma > 2 else 1000, sigma=25.0)]

    with pytest.raises(UserError, match="jumps"):
        BUDGET.calibrate(spend)


def test_an_empirical_budget_asks_for_the_nominal_noise() -> None:
    asked: list[float] = []

    def spend(sigma: float) -> list[Mechanism]:
        asked.append(sigma)
        return [Reveal("look", reason="to see")]

    plan = Budget.empirical().calibrate(spend)
    assert asked == [1.0]
    assert math.isinf(plan.epsilon)
    assert plan.accountant == "none"


def test_every_plan_has_its_own_ident() -> None:
    plans = [BUDGET.calibrate(lambda s: [NoisySum("sum", 1.0, s)]) for _ in range(2)]
    assert plans[0].ident != plans[1].ident
    assert plans[0].mechanisms == plans[1].mechanisms


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0, 100.0])
def test_exact_noise_is_calibrated_by_its_own_price(epsilon: float) -> None:
    """More noise than in closed form, because it is charged as zero-concentrated."""
    budget = Budget(epsilon, 1e-5)
    exact = budget.calibrate(lambda s: [NoisySum("sum", 1.0, s, noise="exact")])
    assert_within_budget(exact)
    assert exact.accountant.startswith("RDP")
    sigmas = [
        plan.mechanism("sum").sigma  # type: ignore[union-attr]
        for plan in (exact, budget.calibrate(lambda s: [NoisySum("sum", 1.0, s)]))
    ]
    assert 1.01 < sigmas[0] / sigmas[1] < 1.12


def test_a_plan_with_one_exact_release_is_calibrated_by_rdp_as_a_whole() -> None:
    def spend(sigma: float) -> list[Mechanism]:
        return [
            NoisyHistogram("labels", bins=10, sigma=20.0, noise="exact"),
            DPSGD("sgd", steps=200, rate=0.01, clip=1.0, sigma=sigma),
        ]

    plan = BUDGET.calibrate(spend)
    assert_within_budget(plan)
    assert plan.accountant.startswith("RDP")
