"""The two reports of a run: the owner's, and the one that may be shared."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data.records import Records
from understudy.data.terms import pictures_may_be_shown, terms_of
from understudy.evaluate.metric import Evaluation
from understudy.privacy.ledger.entries import Entry
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.owner_log import read_owner_log
from understudy.privacy.ledger.released import released_ledger
from understudy.release.claim import FORMAT_0_1, Claim
from understudy.release.near_copies import scan_copies
from understudy.report.model import Curve, OwnerData, ReportData
from understudy.report.render import write_reports
from understudy.run.config import RunConfig
from understudy.run.folder import RunFolder
from understudy.run.prepare import Prepared
from understudy.run.public_options import name_and_source

_PICTURES_PER_CLASS = 10
_MOST_CURVE_POINTS = 400
_MOST_SCANNED = 1000
"""Synthetic records that the owner's warning looks at for near copies; the gate looks at all."""


def write_run_reports(
    folder: RunFolder, prepared: Prepared, claim: Claim, records: Records, digest: str | None
) -> Path:
    """Write `report.html` and `report-public.html` into the run folder; give the owner's."""
    own = read_ledger(folder.ledger)
    told = own if claim.format == FORMAT_0_1 else released_ledger(*folder.read_plan())
    shown = may_be_shown(prepared.config)
    pictures = _pictures(records) if digest is not None and records.is_images else None
    public = ReportData(
        title=f"{prepared.method.info.name} on {prepared.material.dataset.name}",
        claim=claim.to_json(),
        ledger=_plain(told),
        samples=pictures if shown else None,
        settings={"preset": prepared.settings.preset, "seed": prepared.config.seed}
        | dict(claim.method.config),
        digest=digest,
    )
    owner = _owner_data(folder, prepared, records, own)
    owner = replace(owner, own_samples=None if shown else pictures)
    owner_path, _ = write_reports(folder.path, public, owner)
    return owner_path


def may_be_shown(config: RunConfig) -> bool:
    """Whether synthetic pictures of this run may stand in a report for others.

    A model may repeat what it learnt from, public data above all, since nothing bounds what it
    keeps of them. So the terms of every source decide, whatever the claim is.

    Guarantee: a function of the run's options and the catalog; no record decides about it.
    """
    return pictures_may_be_shown(sources_of(config))


def terms_warning(config: RunConfig) -> str | None:
    """What the owner is told where pictures of the run's data are not for others."""
    for source in sources_of(config):
        terms = terms_of(source)
        if not terms.pictures_shown:
            return (
                f"warning: {source} is not to be shown to others, because {terms.because}; the "
                "shareable report holds no pictures, and a release stays with whoever may have "
                "the data."
            )
    return None


def sources_of(config: RunConfig) -> tuple[str, ...]:
    """The data that a run learns from: the private, and the public where it names any."""
    return (config.source, *(name_and_source(words)[1] for words in config.public))


def _plain(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    return [{"kind": e.kind, "body": dict(e.body), "hash": e.hash} for e in entries]


def _owner_data(
    folder: RunFolder, prepared: Prepared, records: Records, ledger: Sequence[Entry]
) -> OwnerData:
    train = prepared.material.private
    copies = scan_copies(records, train, prepared.material.test, most=_MOST_SCANNED)
    return OwnerData(
        own_ledger=_plain(ledger),
        metrics=Evaluation.read(folder.metrics).to_json() if folder.metrics.exists() else None,
        curves=tuple(_curves(folder)),
        timings=folder.times(),
        counts={
            "training records": len(train),
            "test records": 0 if prepared.material.test is None else len(prepared.material.test),
            "duplicates dropped": prepared.material.dropped,
        },
        warnings=tuple(copies.sentences()),
        hardware={
            "processor": platform.processor() or platform.machine(),
            "cores": str(os.cpu_count()),
            "device": prepared.config.device,
        },
    )


def _pictures(records: Records) -> Records:
    """The first few synthetic records of each class, or of all where there is no label."""
    if records.schema.label is None:
        return records.select(range(min(len(records), _PICTURES_PER_CLASS)))
    labels = records.labels
    chosen = [np.flatnonzero(labels == c)[:_PICTURES_PER_CLASS] for c in np.unique(labels)]
    return records.select(np.concatenate(chosen))


def _curves(folder: RunFolder) -> Iterator[Curve]:
    """Loss, realised batch size and clipped fraction by step, from the owner's log.

    A clipped aggregate has neither loss nor clipped fraction, and only the curve that it has.
    """
    rows = [r for r in read_owner_log(folder.owner_log) if "step" in r]
    for name in sorted({str(r["mechanism"]) for r in rows}):
        own = [r for r in rows if r["mechanism"] == name]
        kept = own[:: max(1, len(own) // _MOST_CURVE_POINTS)]
        steps = [float(r["step"]) for r in kept]
        if all("loss" in r for r in kept):
            yield Curve(f"{name}: loss", steps, [float(r["loss"]) for r in kept], "step", "loss")
        yield Curve(f"{name}: units drawn", steps, [float(r["units"]) for r in kept], "step")
        if all("clipped" in r for r in kept):
            clipped = [float(r["clipped"]) / max(1.0, float(r["units"])) for r in kept]
            yield Curve(f"{name}: share clipped", steps, clipped, "step")
