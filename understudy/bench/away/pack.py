"""Packing fits for another machine.

A plan is calibrated here and entered in the account book before anything leaves, as a run
that was packed: the book then refuses to fit it here.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from understudy.bench.away.job import FILE, FitJob, package_digest
from understudy.bench.away.packed_files import PIECE_SIZE, PackedFiles
from understudy.bench.evidence.provenance import Provenance
from understudy.bench.suite.cell import Cell
from understudy.bench.work.cell_folder import PACKED, BusyError, CellFolder
from understudy.bench.work.code_digest import code_digest
from understudy.bench.work.phase_keys import Keys
from understudy.bench.work.workspace import Standing, State, Workspace, cell_to_json
from understudy.data.records import Records
from understudy.data.weights_file import WeightsFile
from understudy.durable import OWNER_ONLY, replace_durably, sync_folder
from understudy.errors import UserError
from understudy.methods.config import config_to_json
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.plan.plan import Plan
from understudy.progress import Progress
from understudy.run.books import open_book
from understudy.run.prepare import Prepared, prepare, sample_count
from understudy.run.start import begin, check_same_facts, method_inputs, noise_of


@dataclass(frozen=True)
class Moved:
    """What became of one cell: packed or collected, or why not."""

    title: str
    done: bool
    words: str


@dataclass(frozen=True)
class Packed:
    """What a run folder says of a plan that left: `is_away` once its job was written whole.

    job: the folder that the job is written to, there and nowhere else.
    """

    token: str
    keys: Keys
    is_away: bool
    job: str


def read_packed(folder: CellFolder) -> Packed:
    found = folder.run.read_json(PACKED)
    return Packed(found["token"], Keys(**found["keys"]), found["is_away"], found.get("job", ""))


def pack(
    cells: Sequence[Cell],
    workspace: Workspace,
    out: Path,
    home: Path | None,
    progress: Progress,
    piece_size: int = PIECE_SIZE,
) -> list[Moved]:
    """Write a job for every cell that has not begun; from then on it is away.

    All of them are looked at before anything is written. Interrupted, the same call goes on: a
    cell is away once its job is written whole.
    """
    fits: dict[str, Standing] = {}
    for standing in workspace.survey(cells):
        fits.setdefault(standing.keys.fit, standing)  # another is the same, measured otherwise
    for standing in fits.values():
        _check_can_be_packed(standing, out, home, progress)
    files = PackedFiles.open(out, piece_size)
    moved: list[Moved] = []
    for standing in fits.values():
        try:
            with standing.folder.locked():
                # Looked at again: others may have begun it while cells before it were packed.
                now = workspace.looked_at(standing.cell, standing.keys, standing.source)
                moved.append(_pack_one(now, files, home, progress))
        except BusyError:
            moved.append(Moved(standing.cell.title, False, "is worked on here, so it stays"))
    return moved


def _is_half_packed(standing: Standing) -> bool:
    return standing.state is State.AWAY and not read_packed(standing.folder).is_away


def _check_can_be_packed(
    standing: Standing, out: Path, home: Path | None, progress: Progress
) -> None:
    """Raise what packing it would raise, while nothing is written yet."""
    if standing.state is State.WAITING or _is_half_packed(standing):
        if _is_half_packed(standing):
            _check_same_job(read_packed(standing.folder), out, standing.cell.title)
        try:
            check_importable(prepare(standing.cell.run_config(), home, progress))
        except UserError as error:
            raise UserError(f"{standing.cell.title} cannot be packed: {error}") from error


def _pack_one(
    standing: Standing, files: PackedFiles, home: Path | None, progress: Progress
) -> Moved:
    """The caller holds the cell folder's lock."""
    cell, folder = standing.cell, standing.folder
    half = _is_half_packed(standing)
    if standing.state is not State.WAITING and not half:
        return Moved(cell.title, False, f"is {standing.state} here, so it stays")
    if half:
        _check_same_job(read_packed(folder), files.root, cell.title)
    prepared = prepare(cell.run_config(), home, progress)
    folder.write_cell(cell_to_json(cell), standing.keys)
    return Moved(cell.title, True, _send_away(prepared, standing, files, home))


def _check_same_job(packed: Packed, out: Path, title: str) -> None:
    """The job may lie there already: written to another folder too, its plan is in two."""
    if packed.job and packed.job != str(out.resolve()):
        raise UserError(
            f"packing {title} was cut short in {packed.job}, and its plan is single-use; go on "
            f"there with -o {packed.job}."
        )


def _send_away(
    prepared: Prepared, standing: Standing, files: PackedFiles, home: Path | None
) -> str:
    """Begin the run here, enter it as packed, write its job, and only then call it away."""
    folder, noise = standing.folder, noise_of(prepared.config)
    check_importable(prepared)
    if not folder.run.path.exists():
        fresh = Packed(secrets.token_hex(16), standing.keys, False, str(files.root.resolve()))
        plain = replace(prepared, config=replace(prepared.config, samples=None))
        begin(folder.run.path, plain, noise, lambda new: new.write_json(PACKED, asdict(fresh)))
    check_same_facts(folder.run, prepared, noise)
    packed = read_packed(folder)
    plan, _ = folder.run.read_plan()
    book = open_book(prepared.config, home)
    book.enter(plan.ident, plan, facts=packed_facts(folder, packed.token))
    name = _slug(f"{standing.cell.title} {packed.keys.fit[:8]}")
    target = files.root / "cells" / name
    write_job_folder(target, _job_of(prepared, standing, files, book))
    files.add_document(target / FILE)
    folder.run.write_json(PACKED, asdict(replace(packed, is_away=True)))
    return name


def _job_of(prepared: Prepared, standing: Standing, files: PackedFiles, book: Book) -> FitJob:
    packed = read_packed(standing.folder)
    plan, run = standing.folder.run.read_plan()
    named = JobName(standing.cell.title, packed.token, asdict(packed.keys))
    return describe_job(prepared, plan, run, named, files, book)


@dataclass(frozen=True)
class JobName:
    """What a job is called, the token that the account book knows it by, and its cell's keys."""

    title: str
    token: str
    keys: Mapping[str, str]


def describe_job(
    prepared: Prepared,
    plan: Plan,
    run: Mapping[str, Any],
    named: JobName,
    files: PackedFiles,
    book: Book,
) -> FitJob:
    """Everything that another machine needs; records and weights are written to `files`."""
    fitting, provenance = method_inputs(prepared, book), Provenance.read()
    kind, train = type(prepared.method), prepared.material.private
    return FitJob(
        title=named.title,
        token=named.token,
        method=f"{kind.__module__}:{kind.__qualname__}",
        code=code_digest(prepared.method),
        config=config_to_json(fitting.config),
        plan=plan,
        run=run,
        schema=train.schema.to_json(),
        shape=train.shape,
        counts=fitting.counts,
        records={k: files.add_records(r) for k, r in fitting.parts.items()},
        public={k: carried_records(files, r) for k, r in fitting.public.records.items()},
        weights={k: carried_weights(files, w) for k, w in fitting.public.weights.items()},
        seed=fitting.seed,
        samples=sample_count(prepared),
        shard_key=fitting.shard_key,
        keys=named.keys,
        commit=provenance.commit,
        dirty=provenance.dirty,
        package=package_digest(),
    )


def carried_records(files: PackedFiles, records: Records) -> dict[str, Any]:
    """Public records kept with a job: their file, and how to read them."""
    return {"file": files.add_records(records), "schema": records.schema.to_json()}


def carried_weights(files: PackedFiles, weights: WeightsFile) -> dict[str, Any]:
    """Public weights kept with a job: their file, and what is told of where they came from."""
    return {"file": files.add_weights(weights.path), "told": weights.to_json()}


def packed_facts(folder: CellFolder, token: str) -> dict[str, str]:
    """How the account book knows a packed run: fitted nowhere but where its job went."""
    return {
        "run folder": str(folder.run.path.resolve()),
        "packed for another machine as": token,
    }


def write_job_folder(target: Path, job: FitJob) -> None:
    """A job whole or not at all; one that is there already is this one, from before a crash."""
    if target.exists():
        if FitJob.read(target).token != job.token:
            raise UserError(f"{target} holds another job; choose another folder with -o.")
        return
    new = target.with_name(f".{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True, mode=0o700)
    replace_durably(new / FILE, json.dumps(job.to_json(), indent=1).encode(), OWNER_ONLY)
    new.rename(target)
    sync_folder(target.parent)


def check_importable(prepared: Prepared) -> None:
    module = type(prepared.method).__module__
    try:
        found = find_spec(module) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        raise UserError(
            f"method {prepared.method.info.name} lies in a file of its own; another machine can "
            "only import it from a package."
        )


def _slug(words: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-.")
