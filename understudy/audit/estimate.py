"""What an audit fixes beforehand, and what its guesses then show."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from understudy.audit import f_dp, one_run
from understudy.audit.trade_off import Family, GaussianCurves
from understudy.errors import UserError, did_you_mean

ESTIMATORS = ("f-dp", "one-run")
VIEWS = ("white-box", "black-box")

PERFECT_PRIVACY = GaussianCurves(claimed=0.0)

_MOST_CANARIES = 10_000_000
"""Beyond it nobody audits; a claim that needs more is out of reach."""


@dataclass(frozen=True)
class AuditPlan:
    """Everything that must not depend on how the coins fell.

    canaries: how many units join by a fair coin each.
    guesses: about how many of these coins a guess is made, the surest ones.
    view: what the guesser sees: every noised output of the door and all other units
        (white-box), or the released records alone (black-box).
    """

    canaries: int
    guesses: int
    delta: float
    confidence: float = 0.95
    estimator: str = "f-dp"
    view: str = "white-box"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("estimator", self.estimator, ESTIMATORS),
            ("view", self.view, VIEWS),
        ):
            if value not in known:
                raise UserError(f"no {name} {value!r}; {did_you_mean(value, known)}")
        if not 1 <= self.canaries <= _MOST_CANARIES:
            raise UserError(
                f"--canaries must lie between 1 and {_MOST_CANARIES:,}, not {self.canaries}."
            )
        if not 1 <= self.guesses <= self.canaries:
            raise UserError(
                f"--guesses must lie between 1 and the {self.canaries} canaries, "
                f"not {self.guesses}."
            )
        if not 0.5 <= self.confidence < 1:
            raise UserError(f"--confidence must lie between 0.5 and 1, not {self.confidence}.")
        if not 0 < self.delta < 1:
            raise UserError(f"delta must lie between 0 and 1 (1e-5, say), not {self.delta!r}.")


def lower_bound(plan: AuditPlan, family: Family, correct: int) -> float:
    """The epsilon that `correct` right guesses show, at the plan's delta and confidence."""
    if plan.estimator == "one-run":
        return one_run.lower_bound(
            canaries=plan.canaries,
            guesses=plan.guesses,
            correct=correct,
            delta=plan.delta,
            confidence=plan.confidence,
        )
    return f_dp.lower_bound(
        family,
        canaries=plan.canaries,
        guesses=plan.guesses,
        correct=correct,
        delta=plan.delta,
        confidence=plan.confidence,
    )


def ceiling(plan: AuditPlan, family: Family) -> float:
    """The most that this plan could show at all: its bound if every guess were right."""
    return lower_bound(plan, family, plan.guesses)


def contradicts_claim(plan: AuditPlan, family: Family, claim: float, correct: int) -> bool:
    """Whether `correct` right guesses are too many for the claim to be true."""
    if plan.estimator == "one-run":
        likely = one_run.p_value(
            [claim],
            canaries=plan.canaries,
            guesses=plan.guesses,
            correct=correct,
            delta=plan.delta,
        )
        return bool(likely[0] <= 1 - plan.confidence)
    found = f_dp.contradicts(
        family,
        np.array([family.claimed]),
        canaries=plan.canaries,
        guesses=plan.guesses,
        correct=correct,
        confidence=plan.confidence,
    )
    return bool(found[0])


def canaries_needed(plan: AuditPlan, family: Family, claim: float) -> int | None:
    """How many canaries could contradict the claim, guessing about the same share of them.

    Rounded up to two figures; None if ten million would not be enough.
    """
    return _fewest(plan, lambda p: contradicts_claim(p, family, claim, p.guesses))


def require_some_power(plan: AuditPlan) -> None:
    """Refuse a plan in which not even right guesses alone would show anything."""

    def could_show_something(some: AuditPlan) -> bool:
        return contradicts_claim(some, PERFECT_PRIVACY, 0.0, some.guesses)

    if could_show_something(plan):
        return
    wrong, right = _remedy(plan, could_show_something)
    raise UserError(
        f"{wrong}: at confidence {plan.confidence:g} nothing shows even if every guess is right; "
        f"use {right}."
    )


_MOST_GUESSES_TRIED = 60
"""If all are right, no confidence that a float can hold needs more."""


def _remedy(plan: AuditPlan, enough: Callable[[AuditPlan], bool]) -> tuple[str, str]:
    """Which argument is wrong and what would be right; guesses where there are canaries left."""
    most = min(plan.canaries // 3, _MOST_GUESSES_TRIED)
    for guesses in range(plan.guesses + 1, most + 1):
        if enough(replace(plan, guesses=guesses)):
            return f"--guesses {plan.guesses} is too few", f"{guesses} or more"
    needed = _fewest(plan, enough)
    if needed is None:
        return f"--delta {plan.delta:g} is too large for {plan.estimator}", "a smaller one"
    guesses = math.floor(needed * plan.guesses / plan.canaries)
    return (
        f"--canaries {plan.canaries} is too few",
        f"{needed:,} or more with --guesses {guesses:,}",
    )


def _fewest(plan: AuditPlan, enough: Callable[[AuditPlan], bool]) -> int | None:
    """The fewest canaries that are enough when guesses keep their share."""
    share = plan.guesses / plan.canaries

    def with_canaries(canaries: int) -> AuditPlan:
        return replace(plan, canaries=canaries, guesses=max(1, math.floor(canaries * share)))

    least, most = 0, 1
    while not enough(with_canaries(most)):
        least, most = most, most * 2
        if most > _MOST_CANARIES:
            return None
    while most - least > max(1, least // 100):
        middle = (least + most) // 2
        least, most = (least, middle) if enough(with_canaries(middle)) else (middle, most)
    size = int(10 ** max(0, len(str(most)) - 2))
    return -(-most // size) * size
