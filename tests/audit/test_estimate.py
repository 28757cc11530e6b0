"""What an audit fixes beforehand, and what it can and cannot show."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from understudy.audit.estimate import (
    AuditPlan,
    canaries_needed,
    ceiling,
    contradicts_claim,
    lower_bound,
    require_some_power,
)
from understudy.audit.run_audit import judge
from understudy.audit.trade_off import GaussianCurves, gaussian_mu
from understudy.errors import UserError

PLAN = AuditPlan(canaries=1000, guesses=400, delta=1e-5)
CLAIM = 2.0
FAMILY = GaussianCurves(gaussian_mu(CLAIM, 1e-5))


@pytest.mark.parametrize("estimator", ["f-dp", "one-run"])
def test_a_claim_is_contradicted_where_the_bound_passes_it(estimator: str) -> None:
    plan = replace(PLAN, estimator=estimator)
    seen = set()
    for correct in range(200, 401, 20):
        contradicted = contradicts_claim(plan, FAMILY, CLAIM, correct)
        assert contradicted is (lower_bound(plan, FAMILY, correct) > CLAIM)
        seen.add(contradicted)
    assert seen == {True, False}


@pytest.mark.parametrize("estimator", ["f-dp", "one-run"])
def test_the_ceiling_grows_with_the_guesses(estimator: str) -> None:
    plan = replace(PLAN, estimator=estimator)
    fewer = replace(plan, canaries=100, guesses=40)
    assert 0 < ceiling(fewer, FAMILY) < ceiling(plan, FAMILY)
    assert ceiling(plan, FAMILY) == lower_bound(plan, FAMILY, 400)


@pytest.mark.parametrize("estimator", ["f-dp", "one-run"])
def test_the_canaries_needed_are_enough_and_half_are_not(estimator: str) -> None:
    few = replace(PLAN, canaries=10, guesses=4, estimator=estimator)
    needed = canaries_needed(few, FAMILY, CLAIM)
    assert needed is not None
    for many, enough in ((needed, True), (needed // 2, False)):
        plan = replace(few, canaries=many, guesses=int(many * 0.4))
        assert contradicts_claim(plan, FAMILY, CLAIM, plan.guesses) is enough


def test_some_claims_no_number_of_canaries_contradicts() -> None:
    plan = replace(PLAN, estimator="one-run")
    assert canaries_needed(plan, FAMILY, 30.0) is None


def test_too_few_canaries_are_refused_with_a_number_that_is_enough() -> None:
    with pytest.raises(UserError, match=r"--canaries 5 is too few.*use 13 or more with --g"):
        require_some_power(replace(PLAN, canaries=5, guesses=2))
    require_some_power(replace(PLAN, canaries=13, guesses=5))


@pytest.mark.parametrize("estimator", ["f-dp", "one-run"])
@pytest.mark.parametrize("confidence", [0.95, 0.999999])
@pytest.mark.parametrize(("canaries", "guesses"), [(1000, 1), (50, 4), (10, 4), (3, 1)])
def test_what_is_refused_is_accepted_once_its_advice_is_followed(
    estimator: str, confidence: float, canaries: int, guesses: int
) -> None:
    plan = replace(PLAN, estimator=estimator, confidence=confidence, delta=1e-9)
    plan = replace(plan, canaries=canaries, guesses=guesses)
    with pytest.raises(UserError, match="is too few") as refused:
        require_some_power(plan)
    advice = str(refused.value).replace(",", "")
    if advice.startswith("--guesses"):
        (more,) = re.findall(r"use (\d+) or more\.", advice)
        require_some_power(replace(plan, guesses=int(more)))
    else:
        ((many, more),) = re.findall(r"use (\d+) or more with --guesses (\d+)\.", advice)
        require_some_power(replace(plan, canaries=int(many), guesses=int(more)))


def test_where_no_number_of_guesses_is_enough_delta_is_named() -> None:
    with pytest.raises(UserError, match=r"--delta 0\.3 is too large.*use a smaller one"):
        require_some_power(replace(PLAN, estimator="one-run", delta=0.3, canaries=40, guesses=16))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"canaries": 0}, "--canaries"),
        ({"guesses": 1001}, "--guesses"),
        ({"guesses": 0}, "--guesses"),
        ({"confidence": 1.0}, "--confidence"),
        ({"confidence": 0.1}, "--confidence"),
        ({"delta": 0.0}, "delta"),
        ({"estimator": "fdp"}, "did you mean f-dp"),
        ({"view": "grey-box"}, "white-box"),
    ],
)
def test_wrong_settings_are_refused_by_name(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        replace(PLAN, **change)


def test_a_plan_cannot_be_changed_afterwards() -> None:
    with pytest.raises(FrozenInstanceError):
        PLAN.guesses = 10  # type: ignore[misc]


def test_the_verdict_says_what_was_shown() -> None:
    held = judge(PLAN, FAMILY, CLAIM, 260)
    assert held.has_power
    assert held.verdict() == "Nothing here contradicts the claim, which is no proof of it."
    assert 0 < held.lower_bound < CLAIM < held.ceiling
    broken = judge(PLAN, FAMILY, CLAIM, 400)
    assert broken.contradicted
    assert "contradicted: the run is less private than its plan" in broken.verdict()
    assert "at most 0.05 of all audits" in broken.verdict()


def test_the_verdict_says_when_there_is_no_power() -> None:
    chance = judge(PLAN, FAMILY, CLAIM, 200)
    assert not chance.has_power
    assert "No power: so many right guesses can be luck" in chance.verdict()
    small = judge(replace(PLAN, canaries=20, guesses=8), FAMILY, CLAIM, 8)
    assert not small.has_power
    assert small.ceiling < CLAIM
    assert f"{small.needed:,} canaries could" in small.verdict()
