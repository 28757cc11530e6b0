"""Packing evaluations: their classifiers are trained on another machine.

The test records leave with the training records. No plan hangs on it and nothing is spent:
the same evaluation may be packed again, and is then trained again.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from understudy.bench.away.classify_job import CLASSIFIED, REFERENCES, ClassifyJob
from understudy.bench.away.job import FILE, FitJob, package_digest
from understudy.bench.away.pack import Moved, read_packed
from understudy.bench.away.packed_files import PIECE_SIZE, PackedFiles
from understudy.bench.evidence.provenance import Provenance
from understudy.bench.suite.cell import Cell
from understudy.bench.work.cell_folder import FIGURES, BusyError
from understudy.bench.work.phase_keys import EVALUATE_VERSION, EVALUATION_SEED
from understudy.bench.work.workspace import Standing, State, Workspace, cell_to_json
from understudy.data.records import Records
from understudy.evaluation.classifier_figures import only_label, records_digest
from understudy.evaluation.protocol import Protocol, load_protocol
from understudy.evaluation.references import References, read_reference, real_rules
from understudy.evaluation.utility import learns_from_real, needs_training
from understudy.progress import Progress
from understudy.run.limit import limited_protocol
from understudy.run.prepare import Prepared, prepare


def pack_evaluations(
    cells: Sequence[Cell],
    workspace: Workspace,
    out: Path,
    home: Path | None,
    progress: Progress,
    piece_size: int = PIECE_SIZE,
) -> list[Moved]:
    """Add to a job every evaluation whose samples are made there, or lie here already."""
    files = PackedFiles.open(out, piece_size)
    moved = []
    for standing in workspace.survey(cells):
        title = f"classifiers of {standing.cell.title}"
        try:
            with standing.folder.locked():
                now = workspace.looked_at(standing.cell, standing.keys, standing.source)
                words = _pack_one(now, files, home, progress)
        except BusyError:
            words = None, "are worked on here, so they stay"
        moved.append(Moved(title, words[0] is not None, words[0] or words[1]))
    return moved


def _pack_one(
    standing: Standing, files: PackedFiles, home: Path | None, progress: Progress
) -> tuple[str | None, str]:
    """The name of the job's cell, or None and why there is none. The caller holds the lock."""
    cell, keys, folder = standing.cell, standing.keys, standing.folder
    protocol = limited_protocol(load_protocol(cell.protocol), cell.limit)
    if not needs_training(protocol):
        return None, "are not asked for by the protocol"
    if standing.state in (State.DONE, State.EVALUATED):
        return None, "are evaluated already"
    sampled = folder.sampled(keys)
    is_here = folder.record("fit", keys) is not None and sampled.samples.exists()
    target = (_own_cell if is_here else _cell_of_fit)(standing, files.root)
    if target is None:
        return None, "have nothing to learn from: neither sampled here nor packed in this job"
    prepared = prepare(cell.run_config(), home, progress)
    if prepared.material.test is None:
        return None, "have no test part to be tested on"
    samples = sampled.load_samples() if is_here else None
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    _carry_figures(standing, target)
    folder.write_cell(cell_to_json(cell), keys)
    files.add_document(_job_of(standing, prepared, protocol, files, samples).write(target))
    return target.name, ""


def _own_cell(standing: Standing, out: Path) -> Path:
    """A cell that holds nothing but this evaluation."""
    words = f"{standing.cell.title} classify {standing.keys.evaluate[:8]}"
    return out / "cells" / re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-.")


def _cell_of_fit(standing: Standing, out: Path) -> Path | None:
    """The cell of this job in which the samples will be made, if they are those wanted."""
    if standing.state is not State.AWAY:
        return None
    packed = read_packed(standing.folder)
    if packed.keys.sample != standing.keys.sample:
        return None
    folders = (path.parent for path in sorted((out / "cells").glob(f"*/{FILE}")))
    return next((f for f in folders if FitJob.read(f).token == packed.token), None)


def _job_of(
    standing: Standing,
    prepared: Prepared,
    protocol: Protocol,
    files: PackedFiles,
    samples: Records | None,
) -> ClassifyJob:
    provenance = Provenance.read()
    train, test = prepared.material.private, prepared.material.test
    assert test is not None
    digests = {"train": records_digest(train), "test": records_digest(test)}
    known = _carry_references(standing, digests, protocol, files.root)
    parts = {"test": only_label(test)}
    if samples is None:
        parts["train"] = train  # as the fit beside it has them: the file is there already
    else:
        parts["synthetic"] = only_label(samples)
        if learns_from_real(protocol) or not known:
            parts["train"] = only_label(train)
    return ClassifyJob(
        title=standing.cell.title,
        keys=asdict(standing.keys),
        protocol=protocol,
        schema=only_label(train).schema,
        train=digests["train"],
        records={name: files.add_records(r) for name, r in parts.items()},
        seed=EVALUATION_SEED,
        version=EVALUATE_VERSION,
        commit=provenance.commit,
        dirty=provenance.dirty,
        package=package_digest(),
    )


def _carry_figures(standing: Standing, target: Path) -> None:
    """What came home of this evaluation before it was finished."""
    known = standing.folder.evaluated(standing.keys).path / FIGURES
    there = target / "run" / CLASSIFIED / f"{standing.keys.evaluate[:16]}.json"
    if known.exists() and not there.exists():
        there.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copy(known, there)


def _carry_references(
    standing: Standing, digests: Mapping[str, str], protocol: Protocol, out: Path
) -> bool:
    """Figures of real records that are known here are not trained for again.

    Gives whether all that the protocol asks for are known.
    """
    home = References(standing.folder.references, EVALUATE_VERSION)
    there = References(out / REFERENCES, EVALUATE_VERSION)
    paths = [home.folder / f"{k}.json" for k in home.keys(digests, protocol, EVALUATION_SEED)]
    known = [path for path in paths if path.exists()]
    for path in known:
        there.take(path)
    rules = real_rules(protocol)
    whole = [p for p in known if rules <= {figure.rule for figure in read_reference(p)}]
    return not protocol.real_reference or len(whole) == len(paths)
