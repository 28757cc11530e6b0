"""What is done is what is charged: every use of every mechanism, in plan and ledger."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.privacy.rig import plan
from understudy.privacy.accounting.accountants import price
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.ledger.story import spent_events
from understudy.privacy.plan.events import (
    DiscreteGaussian,
    Event,
    Gaussian,
    LocalGaussian,
    NonPrivate,
    OneOfShards,
    PoissonGaussian,
    RandomisedResponse,
)
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    EXACT,
    ClippedAggregate,
    EnsembleGradients,
    EnsembleVotes,
    LocalLabels,
    LocalRelease,
    Mechanism,
    NoisyHistogram,
    NoisySum,
    OneOfShardsGradients,
    Reveal,
    mechanism_kinds,
)
from understudy.privacy.plan.plan import Budget

CHARGED: list[tuple[Mechanism, Event]] = [
    (NoisySum("sum", clip=3.0, sigma=2.0), Gaussian(2.0, 1)),
    (NoisyHistogram("histogram", bins=4, sigma=2.0), Gaussian(2.0, 1)),
    (DPSGD("sgd", steps=7, rate=0.1, clip=3.0, sigma=2.0), PoissonGaussian(2.0, 0.1, 7)),
    (NoisySum("sums", clip=3.0, sigma=2.0, releases=7), Gaussian(2.0, 7)),
    (NoisyHistogram("exact", 4, 2.0, noise=EXACT, releases=7), DiscreteGaussian(2.0, 7)),
    (ClippedAggregate("critic", 7, 0.1, clip=3.0, sigma=2.0), PoissonGaussian(2.0, 0.1, 7)),
    (OneOfShardsGradients("one", 5, steps=7, clip=3.0, sigma=2.0), OneOfShards(2.0, 5, 7)),
    (EnsembleVotes("votes", shards=5, queries=7, sigma=2.0), Gaussian(2.0, 7)),
    (EnsembleGradients("gradients", 5, queries=7, clip=3.0, sigma=2.0), Gaussian(2.0, 7)),
    (LocalRelease("local", radius=3.0, sigma=2.0), LocalGaussian(2.0, 1)),
    (LocalLabels("labels", epsilon=0.5), RandomisedResponse(0.5, 1)),
    (Reveal("reveal", "a test"), NonPrivate("a test")),
]


@pytest.mark.parametrize(("mechanism", "event"), CHARGED, ids=lambda v: type(v).__name__)
def test_every_use_is_an_event(mechanism: Mechanism, event: Event) -> None:
    assert mechanism.events(mechanism.uses) == (event,), "uses are not counted"
    assert mechanism.events(0) == ()


def test_every_kind_of_mechanism_is_here() -> None:
    assert {mechanism.kind for mechanism, _ in CHARGED} == set(mechanism_kinds())


def test_a_plan_costs_all_of_its_events() -> None:
    whole = plan(*(mechanism for mechanism, _ in CHARGED))
    assert whole.events() == tuple(event for _, event in CHARGED), "the plan forgets some"


def test_a_ledger_costs_all_that_it_holds(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger", plan(*(m for m, _ in CHARGED)), {})
    for mechanism, _ in CHARGED:
        ledger.reserve(mechanism.name, mechanism.uses)
        ledger.append(ledger.commit_entry(mechanism.uses))
    assert spent_events(ledger.entries) == tuple(e for _, e in CHARGED), "the ledger forgets some"


def test_two_streams_alike_cost_as_two() -> None:
    """A budget for two equal releases asks each for the noise of both, root two times one's."""
    budget = Budget(1.0, 1e-5)

    def sigma(names: tuple[str, ...]) -> float:
        planned = budget.calibrate(lambda s: [NoisySum(n, clip=1.0, sigma=s) for n in names])
        mechanism = planned.mechanisms[0]
        assert isinstance(mechanism, NoisySum)
        return mechanism.sigma

    one, two = sigma(("one",)), sigma(("one", "two"))
    assert two == pytest.approx(math.sqrt(2) * one, rel=0.01), "less noise than two streams need"


def test_a_calibrated_plan_never_costs_more_than_its_budget() -> None:
    for epsilon in (0.3, 1.0, 8.0):
        planned = Budget(epsilon, 1e-5).calibrate(
            lambda s: [DPSGD("sgd", 200, 0.05, 1.0, s), NoisySum("sum", 1.0, 4 * s)]
        )
        cost = price(planned.events(), 1e-5).epsilon
        assert 0.99 * epsilon <= cost <= epsilon, "the plan costs more than its budget"
