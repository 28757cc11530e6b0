"""From a method's name to an audit of its claim, entered in the owner's account book."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from understudy.audit.estimate import AuditPlan, require_some_power
from understudy.audit.run_audit import AuditResult, Subject, Surroundings, run_audit
from understudy.data.catalog import catalog
from understudy.durable import sync_folder, write_durably
from understudy.errors import UserError
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.plan import Budget, Plan, json_number
from understudy.progress import Progress, Silent
from understudy.run.books import open_book
from understudy.run.config import RunConfig
from understudy.run.context import RunContext, choose_device
from understudy.run.prepare import Prepared, calibrate, prepare, run_facts
from understudy.run.public import cache_beside, public_inputs

FORMAT = "understudy-audit/1"
FILE = "audit.json"
LEDGER = "ledger.jsonl"

CANARIES = {"white-box": 5000, "black-box": 500}
"""Enough, white-box, to show about half of a claim of 1, and to contradict one of 10."""

GUESSED_SHARE = 0.4


@dataclass(frozen=True)
class MethodAudit:
    """An audit of one method on one dataset, with what it takes to read it."""

    method: str
    dataset: str
    result: AuditResult
    noise_factor: float
    run_plan: Plan

    def to_json(self) -> dict[str, Any]:
        plan, result = self.result.plan, self.result
        return {
            "format": FORMAT,
            "method": self.method,
            "dataset": self.dataset,
            "delta": plan.delta,
            "confidence": plan.confidence,
            "canaries": plan.canaries,
            "guesses": plan.guesses,
            "estimator": plan.estimator,
            "view": plan.view,
            "noise_factor": self.noise_factor,
            "family": result.family,
            "claim": result.claim,
            "correct": result.correct,
            "lower_bound": json_number(result.lower_bound),
            "ceiling": json_number(result.ceiling),
            "contradicted": result.contradicted,
            "could_contradict": result.could_contradict,
            "needed": result.needed,
            "has_power": result.has_power,
            "verdict": result.verdict(),
            "mechanisms": self.run_plan.to_json()["mechanisms"],
        }


def audit_method(
    config: RunConfig,
    *,
    canaries: int | None = None,
    guesses: int | None = None,
    view: str = "white-box",
    estimator: str = "f-dp",
    confidence: float = 0.95,
    noise_factor: float = 1.0,
    out: Path | None = None,
    home: Path | None = None,
    progress: Progress | None = None,
) -> MethodAudit:
    """Run a method once as it would run for release by its preset, with canaries, and bound its
    epsilon.

    Guarantee: the run is entered in the account book for audit before the first record is
    used, with its whole plan, and can never be released. The plan is the one that a release
    with the same settings would follow; canaries come on top of the records.
    """
    shown = progress or Silent()
    audit = audit_plan(config, canaries, guesses, view, estimator, confidence)
    require_some_power(audit)
    check_twin(config, noise_factor)
    choose_device(config.device)
    if out is not None and out.exists():
        raise UserError(f"-o {out} exists already; choose another or delete it.")
    prepared = prepare(replace(config, time=None), home, shown)
    claimed = claim_to_audit(prepared)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = _audit(prepared, claimed, audit, _Means(folder, home, shown, noise_factor))
        method, dataset = prepared.config.method, prepared.material.dataset.name
        found = MethodAudit(method, dataset, result, noise_factor, claimed)
        if out is not None:
            _keep(out, found, folder)
    return found


@dataclass(frozen=True)
class _Means:
    """Where one audit keeps its ledger and finds its book, and how it runs."""

    folder: Path
    home: Path | None
    progress: Progress
    noise_factor: float


def _audit(prepared: Prepared, claimed: Plan, audit: AuditPlan, means: _Means) -> AuditResult:
    config = prepared.config
    book = open_book(config, means.home)
    entered = enter_audit(prepared, claimed, audit, book, means.noise_factor)
    journal = Journal.create(means.folder, entered, audited_facts(prepared))
    try:
        device = choose_device(config.device)
        where = Surroundings(
            journal,
            device,
            means.progress,
            book.split_key(),
            lambda door: RunContext(door, means.progress, device, config.seed),
        )
        subject = Subject(
            prepared.method,
            prepared.settings.config,
            prepared.parts,
            prepared.facts.counts,
            public_inputs(prepared.public, cache_beside(book)),
        )
        return run_audit(subject, claimed, audit, where, noise_factor=means.noise_factor)
    finally:
        journal.release_lock()


def claim_to_audit(prepared: Prepared) -> Plan:
    """The plan that a release with the same settings would follow."""
    if prepared.method.info.claim != "central":
        name = prepared.config.method
        raise UserError(f"{name} makes no central claim, so there is none to audit.")
    return calibrate(prepared)


def enter_audit(
    prepared: Prepared,
    claimed: Plan,
    audit: AuditPlan,
    book: Book,
    noise_factor: float,
    more: Mapping[str, str] | None = None,
) -> Plan:
    """Enter the run in the account book, for audit only; the plan that its ledger must begin
    with. A twin with other noise is entered without a claim."""
    entered = claimed if noise_factor == 1 else _without_a_claim(claimed)
    facts = {"audit": audit.view, "method": prepared.config.method, **(more or {})}
    book.enter(entered.ident, entered, "audit", facts)
    return entered


def audited_facts(prepared: Prepared) -> dict[str, Any]:
    """What the ledger's first line says of an audited run: that it is one."""
    return replace(run_facts(prepared, NoiseSource()), audited=True).to_json()


def audit_plan(
    config: RunConfig,
    canaries: int | None,
    guesses: int | None,
    view: str,
    estimator: str,
    confidence: float,
) -> AuditPlan:
    """The settings with their defaults, all fixed before anything is looked at."""
    many = CANARIES.get(view, 1) if canaries is None else canaries
    few = max(1, math.floor(many * GUESSED_SHARE)) if guesses is None else guesses
    return AuditPlan(many, few, config.delta, confidence, estimator, view)


def check_twin(config: RunConfig, noise_factor: float) -> None:
    """A twin with other noise keeps no claim, so private records must not meet it."""
    if not 0 <= noise_factor <= 1:
        raise UserError(f"--noise-factor must lie between 0 and 1, not {noise_factor}.")
    if noise_factor != 1 and not is_public(config.source):
        raise UserError(
            "--noise-factor makes a twin that protects nobody; use a public dataset of the "
            "catalog (digits, say)."
        )


def is_public(source: str) -> bool:
    """Whether a source is a public dataset of the catalog."""
    entry = catalog().get(source)
    return entry is not None and entry.public


def _without_a_claim(plan: Plan) -> Plan:
    return replace(plan, budget=Budget.empirical(plan.delta), epsilon=math.inf, accountant="none")


def _keep(out: Path, found: MethodAudit, folder: Path) -> None:
    """The audit and its ledger as one folder of the owner's, whole or not at all."""
    text = json.dumps(found.to_json(), indent=1, sort_keys=True) + "\n"
    new = out.with_name(f".{out.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.mkdir(parents=True, mode=0o700)
        write_durably(new / FILE, text.encode())
        write_durably(new / LEDGER, (folder / LEDGER).read_bytes())
        new.rename(out)
        sync_folder(out.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)
