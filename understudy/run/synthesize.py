"""The main job: from a source and a budget to a verified release."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from understudy.data.records import Records
from understudy.methods.contract import Forecasting
from understudy.privacy.ledger.account_book import Book, book_name
from understudy.privacy.plan.plan import Plan
from understudy.privacy.team.team import Team
from understudy.progress import Progress, Silent
from understudy.release.claim import Claim
from understudy.release.gate import run_refusals
from understudy.release.near_copies import CopyScan, scan_copies
from understudy.run.claiming import claim_of, facts_of, tuning_of_run
from understudy.run.composed import Composed, composed_with
from understudy.run.config import RunConfig
from understudy.run.context import choose_device
from understudy.run.notices import notices
from understudy.run.preflight import check_means, check_places, check_words
from understudy.run.prepare import (
    Prepared,
    calibrate,
    delta_warning,
    open_book,
    prepare,
    sample_count,
)
from understudy.run.public import public_facts
from understudy.run.publish import Target, publish
from understudy.run.reports import terms_warning, write_run_reports
from understudy.run.sampling import sample
from understudy.run.start import begin, check_same_facts, enter_and_execute, noise_of, resumed
from understudy.run.tuning import EarlierRuns, question_selection

_LONG_HOURS = 2.0


@dataclass(frozen=True)
class RunResult:
    """What a finished run left: its claim, its folders, and the release's digest.

    `composed` is what its dataset's runs cost together, for the owner. `release` and `digest` are
    None when the run may not be released; `refusals` says why.
    """

    claim: Claim
    run: Path
    release: Path | None
    digest: str | None
    report: Path
    composed: Composed
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preview:
    """What `--dry-run` shows: the plan and its cost; nothing has been spent or written."""

    prepared: Prepared
    plan: Plan
    composed: Composed

    def to_json(self) -> dict[str, Any]:
        plan = self.plan.to_json()
        forecast = forecast_of(self.prepared)
        return {
            "epsilon": plan["epsilon"],
            "delta": self.plan.delta,
            "accountant": self.plan.accountant,
            "count": self.prepared.facts.count,
            "counts": dict(self.prepared.facts.counts),
            "records": sample_count(self.prepared),
            "unit": self.prepared.config.unit,
            "composed": self.composed.to_json(),
            "plan": plan,
            "public_inputs": [one.to_json() for one in public_facts(self.prepared.public)],
            "preset": self.prepared.settings.preset,
            "expected": forecast,
        }


def forecast_of(prepared: Prepared) -> dict[str, float] | None:
    """Rough seconds and gigabytes on two CPU cores, where the method can tell."""
    if not isinstance(prepared.method, Forecasting):
        return None
    found = prepared.method.forecast(prepared.settings.config, prepared.facts)
    return {"seconds": round(found.seconds), "gigabytes": round(found.gigabytes, 1)}


def time_warning(prepared: Prepared) -> str | None:
    """Said before anything is spent, where a processor would take hours."""
    found = forecast_of(prepared)
    hours = 0.0 if found is None else found["seconds"] / 3600
    if hours < _LONG_HOURS or choose_device(prepared.config.device).type != "cpu":
        return None
    return (
        f"{prepared.config.method} with these settings is forecast to take about {hours:,.0f} "
        "hours on two processor cores; it is made for a GPU. Once begun it costs its whole plan, "
        "also if it is stopped."
    )


def preview(
    config: RunConfig, *, home: Path | None = None, progress: Progress | None = None
) -> Preview:
    """Calibrate a run without beginning it."""
    shown = progress or Silent()
    choose_device(config.device)
    prepared = prepare(config, home, shown, split_key=secrets.token_bytes(32))
    book = Book.look(config.dataset or book_name(config.source), home)
    question_selection(config, EarlierRuns.beside(book.runs(), None))
    _say_beforehand(prepared, shown)
    plan = calibrate(prepared)
    return Preview(prepared, plan, composed_with(config, plan, home))


def _say_beforehand(prepared: Prepared, progress: Progress) -> None:
    warnings = (delta_warning(prepared), time_warning(prepared), terms_warning(prepared.config))
    for words in (*filter(None, warnings), *notices(prepared)):
        progress.say(words)


def synthesize(
    config: RunConfig,
    out: Path | str,
    *,
    run_folder: Path | None = None,
    resume: bool = False,
    signing_key: Path | None = None,
    title: str | None = None,
    home: Path | None = None,
    progress: Progress | None = None,
    team: Team | None = None,
) -> RunResult:
    """Fit, sample and release; `out` becomes the release, `run_folder` keeps the rest.

    Everything in `out` may be handed on; everything in the run folder is the owner's. team: the
    processes that fit together; this is the first, and the others call `run.start.execute_along`.
    """
    shown, out = progress or Silent(), Path(out)
    path = run_folder or Path("runs") / out.name
    check_places(config, out, path, resume=resume)
    check_means(config, signing_key, title)
    folder = resumed(path, config, home) if resume else None
    noise = noise_of(config)
    prepared = prepare(config, home, shown)
    title = title or f"Synthetic stand-in for {prepared.material.dataset.name}"
    check_words(prepared.facts.schema, title, config.unit)
    _say_beforehand(prepared, shown)
    book = open_book(config, home)  # before the run folder: a home that cannot be used leaves none
    if folder is None:
        question_selection(config, EarlierRuns.beside(book.runs(), None))
        folder = begin(path, prepared, noise)
    else:
        check_same_facts(folder, prepared, noise)
    with folder.timed("fit"):
        enter_and_execute(prepared, folder, book, noise, shown, team)
    with folder.timed("sample"):
        count, method = sample_count(prepared), prepared.method
        records = sample(folder, folder, method, count, config.seed, config.device, shown)
    claim = claim_of(folder, records, tuning_of_run(folder, config, prepared.settings, book))
    scan = _scan(records, prepared) if claim.kind == "empirical" else None
    refusals = tuple(run_refusals(claim, facts_of(folder)))
    digest = None
    if not refusals:
        announce = partial(book.mark_released, folder.read_plan()[0].ident)
        target = Target(out, title, signing_key, announce)
        with folder.timed("release"):
            claim, digest = publish(folder, records, claim, target, scan)
        folder.write_json("release.json", {"folder": str(out.resolve()), "digest": digest})
    folder.write_json("claim.json", claim.to_json())
    report = write_run_reports(folder, prepared, claim, records, digest)
    composed = composed_with(config, folder.read_plan()[0], home)
    release = out if digest else None
    return RunResult(claim, folder.path, release, digest, report, composed, refusals)


def _scan(records: Records, prepared: Prepared) -> CopyScan:
    """What an empirical release passes before it is published; a formal claim needs no such look
    at private records, and must not depend on one."""
    return scan_copies(records, prepared.material.private, prepared.material.test)
