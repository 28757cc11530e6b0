"""One audit: coins, a run with canaries behind a real door, guesses, and what they show."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from understudy.audit.black_box import density_scores
from understudy.audit.canaries import (
    Coins,
    Guesses,
    blank_records,
    extremes,
    plant,
    random_records,
    toss,
)
from understudy.audit.estimate import (
    AuditPlan,
    canaries_needed,
    ceiling,
    contradicts_claim,
    lower_bound,
)
from understudy.audit.observer import Observer, TooManyCanariesError
from understudy.audit.trade_off import Family, family_of
from understudy.audit.white_box import AuditDoor
from understudy.data.records import Records
from understudy.errors import RunFailed, UserError
from understudy.methods.contract import Context, FixedSet, Method, PublicInputs, Sampler
from understudy.privacy.door.door import Door
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.plan import Plan
from understudy.progress import Progress

_SEEDS = 2**62


@dataclass(frozen=True)
class Subject:
    """The method under audit with its settings, records, declared counts and public inputs."""

    method: Method
    config: Any
    parts: Mapping[str, Records]
    counts: Mapping[str, int]
    public: PublicInputs = field(default_factory=PublicInputs)


@dataclass(frozen=True)
class Surroundings:
    """Where an audit runs: its ledger, device, bars, and how a method gets its context."""

    journal: Journal
    device: torch.device
    progress: Progress
    shard_key: bytes
    context_of: Callable[[Door], Context]


@dataclass(frozen=True)
class AuditResult:
    """What an audit shows: with `plan.confidence`, epsilon is at least `lower_bound`.

    claim: what the plan of the run claims at `plan.delta`.
    ceiling: the most that so many canaries and guesses could have shown at all.
    contradicted: that the claim is too small for what was guessed.
    needed: how many canaries could contradict the claim, where these could not.
    """

    plan: AuditPlan
    claim: float
    correct: int
    lower_bound: float
    ceiling: float
    contradicted: bool
    could_contradict: bool
    needed: int | None
    family: str

    @property
    def has_power(self) -> bool:
        """Whether it showed anything, and could have found the claim wrong."""
        return self.lower_bound > 0 and self.could_contradict

    def verdict(self) -> str:
        """The outcome in a few sentences that need no statistics to read."""
        if self.contradicted:
            return (
                "The claim is contradicted: the run is less private than its plan. A true claim "
                f"is contradicted in at most {1 - self.plan.confidence:.2g} of all audits."
            )
        words = "Nothing here contradicts the claim, which is no proof of it."
        if self.lower_bound == 0:
            words += " No power: so many right guesses can be luck, so nothing was shown."
        if not self.could_contradict:
            words += (
                " No power against this claim: were every guess right, it would not be "
                f"contradicted; {self._what_could()}."
            )
        return words

    def _what_could(self) -> str:
        if self.needed is None:
            return "no number of canaries up to 10,000,000 could do that"
        return f"{self.needed:,} canaries could do that"


def run_audit(
    subject: Subject,
    plan: Plan,
    audit: AuditPlan,
    where: Surroundings,
    *,
    noise_factor: float = 1.0,
) -> AuditResult:
    """Run the method once with canaries among its records and guess which are in.

    The journal must say that the run is audited, and the caller has entered it in the
    account book.
    """
    correct = right_guesses(subject, plan, audit, where, noise_factor=noise_factor)
    with where.progress.task("bounding epsilon", None):
        return judge(audit, family_of(plan), plan.epsilon, correct)


def right_guesses(
    subject: Subject,
    plan: Plan,
    audit: AuditPlan,
    where: Surroundings,
    *,
    noise_factor: float = 1.0,
) -> int:
    """The part of `run_audit` that meets records: how many guesses about coins were right.

    Needs torch and numpy alone; `judge` can follow on another machine. What `run_audit` asks
    of the journal and the account book is asked here too.
    """
    coins = toss(audit.canaries)
    guess = _white_box if audit.view == "white-box" else _black_box
    return guess(subject, plan, audit, where, coins, noise_factor).correct(coins)


def judge(audit: AuditPlan, family: Family, claim: float, correct: int) -> AuditResult:
    """What so many right guesses say about a claim."""
    could = contradicts_claim(audit, family, claim, audit.guesses)
    return AuditResult(
        plan=audit,
        claim=claim,
        correct=correct,
        lower_bound=lower_bound(audit, family, correct),
        ceiling=ceiling(audit, family),
        contradicted=contradicts_claim(audit, family, claim, correct),
        could_contradict=could,
        needed=None if could else canaries_needed(audit, family, claim),
        family=family.name,
    )


def _white_box(
    subject: Subject,
    plan: Plan,
    audit: AuditPlan,
    where: Surroundings,
    coins: Coins,
    noise_factor: float,
) -> Guesses:
    part = subject.method.info.first_part
    canaries = blank_records(subject.parts[part], audit.canaries)
    observer = Observer(audit.canaries, secrets.randbelow(_SEEDS), len(plan.mechanisms))
    try:
        _fit(subject, plan, where, canaries, coins, noise_factor, observer)
    except RunFailed as failure:
        if isinstance(failure.__cause__, TooManyCanariesError):
            raise failure.__cause__ from None
        raise
    observer.require_evidence()
    return extremes(observer.scores, audit.guesses)


def _black_box(
    subject: Subject,
    plan: Plan,
    audit: AuditPlan,
    where: Surroundings,
    coins: Coins,
    noise_factor: float,
) -> Guesses:
    part = subject.method.info.first_part
    canaries = random_records(subject.parts[part], audit.canaries, secrets.randbelow(_SEEDS))
    result = _fit(subject, plan, where, canaries, coins, noise_factor, None)
    if isinstance(result, Sampler):
        released = result.sample(subject.counts[part], seed=0)
    elif isinstance(result, FixedSet):
        released = result.records()
    else:
        raise UserError(f"{subject.method.info.name} makes no records to guess from.")
    if released.shape != canaries.shape:
        raise UserError(
            f"{subject.method.info.name} makes records of shape {list(released.shape)}, and the "
            f"canaries have {list(canaries.shape)}, so nearness tells nothing; leave --black-box "
            "out."
        )
    return extremes(density_scores(canaries, released), audit.guesses)


def _fit(
    subject: Subject,
    plan: Plan,
    where: Surroundings,
    canaries: Records,
    coins: Coins,
    noise_factor: float,
    observer: Observer | None,
) -> object:
    part = subject.method.info.first_part
    door = AuditDoor(
        where.journal,
        NoiseSource(),
        device=where.device,
        progress=where.progress,
        shard_key=where.shard_key,
        observer=observer,
        noise_factor=noise_factor,
    )
    planting = plant(subject.parts[part], canaries, coins)
    handles = door.planted_handles(subject.parts, subject.counts, part, planting)
    try:
        result = subject.method.fit(
            subject.config, handles, plan, subject.public, where.context_of(door)
        )
        door.settle()
    finally:
        door.abandon()
    where.journal.close()
    return result
