"""The main job: from a source and a budget to a verified release."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from understudy.data.contact_sheet import to_html
from understudy.data.records import Records
from understudy.errors import RunFailed
from understudy.methods.config import config_to_json
from understudy.methods.machines import machine
from understudy.methods.rules import find_rule
from understudy.privacy.plan.plan import Plan
from understudy.privacy.team.team import Team
from understudy.progress import Progress, Silent
from understudy.release.claim import Claim
from understudy.release.gate import run_refusals
from understudy.release.near_copies import CopyScan, scan_copies
from understudy.release.words import epsilon_in_words
from understudy.run.books import look_book, open_book
from understudy.run.choosing.expected import Expected, expected_of
from understudy.run.claiming import claim_of, facts_of, tuning_of_run
from understudy.run.composed import Composed, composed_with
from understudy.run.config import RunConfig
from understudy.run.folder import RunFolder
from understudy.run.notices import notices
from understudy.run.option_checks import refuse_decided
from understudy.run.preflight import check_means, check_places, check_words
from understudy.run.prepare import Prepared, calibrate, delta_warning, prepare, sample_count
from understudy.run.public import public_facts
from understudy.run.publish import Target, publish
from understudy.run.reports import may_be_shown, terms_warning, write_run_reports
from understudy.run.reservation import check_not_taken, give_up, reserved
from understudy.run.sampling import sample
from understudy.run.start import (
    begin,
    check_same_facts,
    enter_and_execute,
    noise_of,
    resumed,
    taken_together,
)
from understudy.run.titles import RELEASE, release_title
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

    def __repr__(self) -> str:
        went = "not released" if self.release is None else f"released in {self.release}"
        return f"RunResult({self.claim!r}, {went}, run {self.run})"

    def _repr_html_(self) -> str:
        """The claim's first sentence above pictures of the run, for its owner's notebook."""
        sheet = RunFolder(self.run).sheet
        return to_html(sheet.read_bytes() if sheet.exists() else None, self.claim.statement[0])


@dataclass(frozen=True)
class Preview:
    """What `--dry-run` shows: the plan and its cost; nothing has been spent or written."""

    prepared: Prepared
    plan: Plan
    composed: Composed
    expected: Expected | None

    def __repr__(self) -> str:
        cost = f"epsilon {epsilon_in_words(self.plan.epsilon)}, delta {self.plan.delta:g}"
        return f"Preview({self.prepared.method.info.name}, {cost})"

    def to_json(self) -> dict[str, Any]:
        plan = self.plan.to_json()
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
            "method": self.prepared.config.method,
            "preset": self.prepared.settings.preset,
            "settings": config_to_json(self.prepared.settings.config),
            "expected": None if self.expected is None else self.expected.to_json(),
        }


def time_warning(prepared: Prepared, seconds: float | None) -> str | None:
    """Said before anything is spent, where a run would take hours on the machine at hand."""
    hours = (seconds or 0.0) / 3600
    if hours < _LONG_HOURS:
        return None
    method = prepared.config.method
    return (
        f"{method} with these settings is forecast to take about {hours:,.0f} hours here"
        f"{_mend(prepared)}. Once begun it costs its whole plan, also if it is stopped."
    )


def _mend(prepared: Prepared) -> str:
    """What would take less, if anything would."""
    config = prepared.config
    if config.device_kind is not None:
        name = machine(config.device_kind).name
        return f"; they are for {name}: begin it there, or leave --device-kind out"
    by_rule = find_rule(prepared.method, prepared.facts, config.epsilon) is not None
    if by_rule and (config.preset is not None or config.changes):
        return "; --time 10m, without --preset and --set, takes settings that fit"
    return ""


def preview(
    config: RunConfig,
    out: Path | str | None = None,
    *,
    run_folder: Path | None = None,
    resume: bool = False,
    signing_key: Path | None = None,
    title: str | None = None,
    home: Path | None = None,
    progress: Progress | None = None,
) -> Preview:
    """Calibrate a run without beginning it; refuses whatever `synthesize` would refuse.

    out, run_folder, resume, signing_key, title: what `synthesize` would be given. Without `out`
    places are not looked at.
    """
    shown, path = progress or Silent(), run_folder or Path("runs") / Path(out or "").name
    if out is not None:
        _check_place(config, Path(out), path, resume, home)
    check_means(config, signing_key, title)
    folder, config = _begun(path, config, home, resume=resume and out is not None)
    prepared = prepare(config, home, shown, split_key=secrets.token_bytes(32))
    check_words(prepared.facts.schema, release_title(title, prepared), config.unit)
    config, expected = prepared.config, expected_of(prepared, shown, tries=folder is None)
    _say_beforehand(prepared, expected, shown)
    plan = calibrate(prepared) if folder is None else folder.read_plan()[0]
    return Preview(prepared, plan, composed_with(config, plan, home), expected)


def _say_beforehand(prepared: Prepared, expected: Expected | None, progress: Progress) -> None:
    warnings = (
        delta_warning(prepared),
        time_warning(prepared, None if expected is None else expected.here),
        terms_warning(prepared.config),
    )
    for words in (*filter(None, warnings), *notices(prepared), *prepared.said):
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
    _check_place(config, out, path, resume, home)
    check_means(config, signing_key, title)
    if team is not None:
        config = taken_together(config, team)
    folder, config = _begun(path, config, home, resume=resume)
    finished, noise = resume and (path / RELEASE).exists(), noise_of(config)
    prepared = prepare(config, home, shown)
    config = prepared.config
    called = release_title(title, prepared)
    check_words(prepared.facts.schema, called, config.unit)
    book = open_book(config, home)  # before the run folder: a home that cannot be used leaves none
    _say_beforehand(prepared, expected_of(prepared, shown, tries=False), shown)
    with reserved(out, path, home):
        if folder is None:
            folder = begin(path, prepared, noise)
        else:
            check_same_facts(folder, prepared, noise)
    with folder.timed("fit"):
        try:
            enter_and_execute(prepared, folder, book, noise, shown, team)
        except RunFailed:
            give_up(out, home)
            raise
    with folder.timed("sample"):
        count, method = sample_count(prepared), prepared.method
        records = sample(folder, folder, method, count, config.seed, config.device, shown)
    claim = claim_of(folder, records, tuning_of_run(folder, config, prepared.settings, book))
    scan = _scan(records, prepared) if claim.kind == "empirical" else None
    refusals = tuple(run_refusals(claim, facts_of(folder)))
    digest = None
    if not refusals:
        announce = partial(book.mark_released, folder.read_plan()[0].ident)
        target = Target(out, called, signing_key, announce, may_be_shown(config))
        with folder.timed("release"):
            claim, digest = publish(folder, records, claim, target, scan)
        went = {"folder": str(out.resolve()), "digest": digest, "title": title}
        folder.write_json(RELEASE, went)
    give_up(out, home)
    folder.write_json("claim.json", claim.to_json())
    report = write_run_reports(folder, prepared, claim, records, digest)
    composed = composed_with(config, folder.read_plan()[0], home)
    release = out if digest else None
    if finished:
        shown.say(f"{path} was finished already; nothing more is spent.")
    return RunResult(claim, folder.path, release, digest, report, composed, refusals)


def _begun(
    path: Path, config: RunConfig, home: Path | None, *, resume: bool
) -> tuple[RunFolder | None, RunConfig]:
    """The run to go on with, and its config; of a new one, only what its owner may ask for."""
    if resume:
        return resumed(path, config, home)
    refuse_decided(config)
    question_selection(config, EarlierRuns.beside(look_book(config, home).runs(), None))
    return None, config


def _check_place(config: RunConfig, out: Path, run: Path, resume: bool, home: Path | None) -> None:
    check_places(config, out, run, resume=resume)
    check_not_taken(out, run, home)


def _scan(records: Records, prepared: Prepared) -> CopyScan:
    """What an empirical release passes before it is published; a formal claim needs no such look
    at private records, and must not depend on one."""
    return scan_copies(records, prepared.material.private, prepared.material.test)
