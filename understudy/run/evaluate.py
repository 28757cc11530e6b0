"""Evaluation of a run or of a release, on the owner's side."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from understudy.data.catalog import catalog
from understudy.data.load import Dataset, load
from understudy.data.records import Records, concatenate
from understudy.errors import UserError, did_you_mean
from understudy.evaluation.classifier_figures import ClassifierFigures
from understudy.evaluation.evaluate import evaluate
from understudy.evaluation.metric import Evaluation
from understudy.evaluation.metric_registry import only_attacks
from understudy.evaluation.protocol import Protocol
from understudy.evaluation.references import References
from understudy.evaluation.verdict import VerdictFacts, verdict
from understudy.privacy.ledger.account_book import Book
from understudy.progress import Progress, Silent
from understudy.release.claim import Claim
from understudy.release.load import load_release
from understudy.release.manifest import MANIFEST, hash_file
from understudy.run.books import open_book, require_own_book
from understudy.run.composed import composed_with_one_more
from understudy.run.config import read_config
from understudy.run.folder import RunFolder
from understudy.run.limit import limited_protocol
from understudy.run.outside_test import outside_test
from understudy.run.prepare import Prepared, prepare
from understudy.run.reports import write_run_reports


def evaluate_run(
    folder: Path | str,
    protocol: Protocol,
    *,
    test: str | None = None,
    device: str | None = None,
    home: Path | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure a run's samples on its own test part, or on outside data; updates the owner's report.

    test: any source of real records from elsewhere, with the run's classes. The real training
        records stay the reference.
    Writes `metrics.json` into the run folder. Nothing of it goes into a release. What another
    protocol, or other test data, measured before is kept beside it, as `metrics-PROTOCOL.json` or
    `metrics-PROTOCOL-on-DATA.json`.
    Guarantee: before anything is measured the owner's account book notes that this run is
    evaluated, so that later claims on these data say that tuning is not covered (rule 7).
    """
    shown = progress or Silent()
    run = RunFolder(Path(folder))
    config = read_config(run.path)
    records = run.load_samples()
    require_own_book(config, run, home)
    prepared = prepare(config, home, shown)
    judged = prepared if test is None else _tested_on(prepared, test, records, shown)
    open_book(config, home).mark_evaluated(run.read_plan()[0].ident, protocol.name)
    figures = measure(records, judged, protocol, device=device, progress=shown, dataset=test)
    result = replace(figures, verdict=_verdict(figures, prepared, run, home, test))
    _keep_other_figures(run, result, prepared.material.dataset.name)
    result.write(run.path)
    claim = Claim.from_json(run.read_json("claim.json"))
    write_run_reports(run, prepared, claim, records, _digest(run))
    return result


def _verdict(
    figures: Evaluation, prepared: Prepared, run: RunFolder, home: Path | None, test: str | None
) -> tuple[str, ...]:
    """What the figures of a run come to, and what one more such run would cost."""
    config, plan = prepared.config, run.read_plan()[0]
    more = composed_with_one_more(config, plan, home)
    facts = VerdictFacts(
        run=str(run.path),
        dataset=more.dataset,
        epsilon=None if math.isinf(plan.epsilon) else plan.epsilon,
        delta=plan.delta,
        count=sum(prepared.facts.counts.values()),
        unit=config.unit,
        now=more.others.epsilon,
        after=more.together.epsilon,
    )
    held_out = test is None and prepared.material.split == "keyed-hash"
    tested_on = "the run's own test part" if test is None else test
    return verdict(figures.rows, tested_on, facts, held_out=held_out)


def _tested_on(prepared: Prepared, test: str, samples: Records, progress: Progress) -> Prepared:
    """The same run with outside records in the place of its own test part."""
    outside = outside_test(test, prepared.config.source, samples, progress)
    return replace(prepared, material=replace(prepared.material, test=outside))


def _keep_other_figures(run: RunFolder, now: Evaluation, own: str) -> None:
    """Set figures aside that are not of this protocol and these test data."""
    if not run.metrics.exists():
        return
    name = "unreadable"
    with suppress(UserError):
        before = Evaluation.read(run.metrics)
        if (before.protocol.name, before.dataset) == (now.protocol.name, now.dataset):
            return
        elsewhere = "" if before.dataset == own else f"-on-{Path(before.dataset).name}"
        name = f"{before.protocol.name}{elsewhere}"
    safe = re.sub(r"[^\w.-]", "-", name)
    run.metrics.replace(run.path / f"metrics-{safe}.json")


def measure(
    records: Records,
    prepared: Prepared,
    protocol: Protocol,
    *,
    device: str | None,
    progress: Progress,
    dataset: str | None = None,
    figures: ClassifierFigures | None = None,
    references: References | None = None,
) -> Evaluation:
    """The protocol's metrics of a run's samples, on the test part that was prepared.

    dataset: what that part is of, where it is not the run's own data.
    """
    material = prepared.material
    return evaluate(
        records,
        material.private,
        test_part(prepared),
        limited_protocol(protocol, prepared.config.limit),
        device=device,
        progress=progress,
        dataset=dataset or material.dataset.name,
        figures=figures,
        references=references,
    )


def test_part(prepared: Prepared) -> Records:
    if prepared.material.test is None:
        raise UserError(f"{prepared.config.source} has no test part to evaluate on.")
    return prepared.material.test


def evaluate_release(
    folder: Path | str,
    protocol: Protocol,
    *,
    real: str | None = None,
    test: str | None = None,
    out: Path | None = None,
    device: str | None = None,
    home: Path | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure a release on real records that the caller names.

    Where a book under `home` knows the release, it is the owner's, and noted there as evaluated.

    real: a catalog name; its train part is what references and real2gen learn from, its
        test part is tested on. test: any source, tested on as a whole; what was trained
        on is then unknown and nothing takes its place.
    """
    if (real is None) == (test is None):
        raise UserError("say what is real: --real with a catalog name, or --test with data.")
    if real is None and only_attacks(protocol.metrics):
        raise UserError(
            f"the protocol {protocol.name} needs the records that were fitted on: use --run with "
            "the run folder, or --real with a catalog name, instead of --test."
        )
    shown, folder = progress or Silent(), Path(folder)
    if out is not None:
        _check_out(out, folder)
    records, claim = load_release(folder)
    train, held = (
        _catalog_parts(real, claim, shown) if real else (None, _whole(str(test), claim, shown))
    )
    name = real or str(test)
    _note_own_release(folder, protocol, home)
    figures = evaluate(records, train, held, protocol, device=device, progress=shown, dataset=name)
    result = replace(figures, verdict=verdict(figures.rows, name))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        result.write(out)
    return result


def _note_own_release(folder: Path, protocol: Protocol, home: Path | None) -> None:
    """As for a run: what its owner sees of a release may choose the next one (rule 7)."""
    digest = hash_file(folder / MANIFEST)
    for book in Book.every(home):
        for run in book.runs():
            if digest in run.released:
                book.mark_evaluated(run.run_id, protocol.name)


def _check_out(out: Path, release: Path) -> None:
    """The figures are the owner's: they must not land in what is handed on (rule 10)."""
    if (out / "metrics.json").exists():
        raise UserError(f"{out}/metrics.json exists already; choose another folder with -o.")
    if out.resolve().is_relative_to(release.resolve()):
        raise UserError(f"-o {out} lies in the release, which is handed on; choose another folder.")


def _catalog_parts(name: str, claim: Claim, progress: Progress) -> tuple[Records, Records]:
    if name not in catalog():
        raise UserError(
            f"--real takes a catalog name, not {name!r}; {did_you_mean(name, catalog())} "
            "For your own data use --test."
        )
    dataset = _load_like(name, claim, progress)
    return dataset.part("train"), dataset.part("test")


def _whole(source: str, claim: Claim, progress: Progress) -> Records:
    dataset = _load_like(source, claim, progress)
    if "test" in dataset.parts:
        return dataset.part("test")
    return concatenate(list(dataset.parts.values()))


def _load_like(source: str, claim: Claim, progress: Progress) -> Dataset:
    """Real records with the release's label, in its channels and (if square) its size."""
    channels, height, width = claim.records.shape
    return load(
        source,
        label=claim.records.schema.label,
        size=height if height == width else None,
        channels=channels,
        progress=progress,
    )


def _digest(run: RunFolder) -> str | None:
    released = (run.path / "release.json").exists()
    return str(run.read_json("release.json").get("digest")) if released else None
