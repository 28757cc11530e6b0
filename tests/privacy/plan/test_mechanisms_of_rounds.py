"""Repeated releases, clipped aggregates and one of K shards: what they say, cost and refuse."""

from __future__ import annotations

import math

import pytest

from understudy.errors import UserError
from understudy.privacy.accounting.accountants import price
from understudy.privacy.plan.events import (
    DiscreteGaussian,
    Event,
    Gaussian,
    OneOfShards,
    PoissonGaussian,
)
from understudy.privacy.plan.mechanisms import (
    ClippedAggregate,
    Mechanism,
    NoisyHistogram,
    NoisySum,
    OneOfShardsGradients,
    mechanism_from_json,
    mechanism_to_json,
)
from understudy.privacy.plan.plan import Budget

AGGREGATE = ClippedAggregate("critic", steps=30, rate=0.1, clip=0.5, sigma=2.0)
ONE = OneOfShardsGradients("one", shards=100, steps=40, clip=0.5, sigma=1.5)


def test_a_single_release_is_written_as_version_0_1_wrote_it() -> None:
    assert mechanism_to_json(NoisySum("sum", 1.0, 2.0)) == {
        "kind": "noisy-sum",
        "name": "sum",
        "clip": 1.0,
        "sigma": 2.0,
        "part": "train",
        "noise": "float",
    }
    assert list(mechanism_to_json(NoisyHistogram("bins", 3, 2.0))) == [
        *("kind", "name", "bins", "sigma", "part", "noise")
    ]


@pytest.mark.parametrize(
    "mechanism",
    [
        NoisySum("sum", 1.0, 2.0, releases=7),
        NoisyHistogram("bins", 3, 2.0, noise="exact", releases=10),
        AGGREGATE,
        ONE,
    ],
    ids=lambda m: m.kind,
)
def test_what_is_written_is_read_back(mechanism: Mechanism) -> None:
    assert mechanism_from_json(mechanism_to_json(mechanism)) == mechanism


@pytest.mark.parametrize(
    ("mechanism", "events"),
    [
        (NoisySum("m", 1.0, 2.0, releases=7), (Gaussian(2.0, 7),)),
        (NoisySum("m", 1.0, 2.0, noise="exact", releases=7), (DiscreteGaussian(2.0, 7),)),
        (NoisyHistogram("m", 3, 2.0, releases=7), (Gaussian(2.0, 7),)),
        (AGGREGATE, (PoissonGaussian(2.0, 0.1, 30),)),
        (ONE, (OneOfShards(1.5, 100, 40),)),
    ],
    ids=lambda v: getattr(v, "kind", ""),
)
def test_all_planned_uses_are_charged(mechanism: Mechanism, events: tuple[Event, ...]) -> None:
    assert mechanism.events(mechanism.uses) == events
    assert mechanism.events(0) == ()


def test_repeated_releases_cost_what_as_many_single_ones_do() -> None:
    together = price(NoisySum("m", 1.0, 4.0, releases=6).events(6), 1e-5)
    alone = [event for i in range(6) for event in NoisySum(f"m{i}", 1.0, 4.0).events(1)]
    assert together.epsilon == pytest.approx(price(alone, 1e-5).epsilon)


def test_an_aggregate_is_charged_for_twice_the_clip() -> None:
    """The same noise in all on a sum over units has twice the multiplier."""
    assert AGGREGATE.sensitivity == ONE.sensitivity == 1.0
    assert AGGREGATE.words().endswith("standard deviation 2.")
    assert ONE.words().endswith("standard deviation 1.5.")


def test_one_of_more_shards_costs_less_and_one_of_one_no_less_than_all() -> None:
    one, *more = [price([OneOfShards(1.5, k, 40)], 1e-5).epsilon for k in (1, 2, 10, 100)]
    assert more == sorted(more, reverse=True)
    assert more[-1] < one
    assert price([Gaussian(1.5, 40)], 1e-5).epsilon <= one < math.inf


def test_budgets_are_met_by_each() -> None:
    for make in (
        lambda sigma: (NoisySum("m", 1.0, sigma, releases=10),),
        lambda sigma: (ClippedAggregate("m", 100, 0.05, 1.0, sigma),),
        lambda sigma: (OneOfShardsGradients("m", 50, 100, 1.0, sigma),),
    ):
        plan = Budget(2.0, 1e-5).calibrate(make)
        assert 0.99 * 2.0 <= plan.epsilon <= 2.0


@pytest.mark.parametrize("field", ["releases", "steps", "shards", "rate", "clip", "sigma"])
def test_numbers_that_void_the_guarantee_are_refused(field: str) -> None:
    wrong = {"releases": 0, "steps": 0, "shards": 0, "rate": 1.5, "clip": 0.0, "sigma": -1.0}
    for mechanism in (NoisySum("m", 1.0, 2.0, releases=2), AGGREGATE, ONE):
        data = mechanism_to_json(mechanism)
        if field in data:
            with pytest.raises(UserError, match=field):
                mechanism_from_json({**data, field: wrong[field]})


def test_words_say_how_often() -> None:
    assert "leaves once" in NoisySum("m", 1.0, 2.0).words()
    assert "leaves 10 times" in NoisySum("m", 1.0, 2.0, releases=10).words()
    assert "leave 10 times" in NoisyHistogram("m", 3, 2.0, releases=10).words()
