"""Fit packed jobs on a machine that has only torch, numpy and safetensors.

    python -m understudy.bench.away JOB --check
    python -m understudy.bench.away JOB [--device cuda] [--phases fit,sample,classify]
        [--drop-pieces] [--result RESULT [--samples none]]
    torchrun --nproc-per-node 2 -m understudy.bench.away JOB --device cuda

The first says which pieces of the job's files are there; the second joins them and works. The
third fits each job by several processes, one a GPU; the first of them does the rest.

Works in `JOB/cells/NAME/run`, through the same door and journal as everywhere: cut off at
any moment, the same command goes on there. A job must be worked on in one place only: its
plan is single-use, and a second fit of it is refused when it is collected.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from understudy.bench.away.classify_job import ClassifyJob
from understudy.bench.away.classifying import classify_away
from understudy.bench.away.job import FILE, FitJob, package_digest
from understudy.bench.away.joining import (
    JoinedFiles,
    cells_named,
    check_documents,
    files_needed,
    join_files,
    survey,
)
from understudy.bench.away.result import check_result_place, write_result
from understudy.bench.evidence.provenance import Provenance
from understudy.bench.work.code_digest import code_digest
from understudy.bench.work.measuring import measured
from understudy.data.record_arrays import read_arrays
from understudy.data.schema import Schema
from understudy.data.weights_file import WeightsFile
from understudy.errors import UserError
from understudy.methods.config import build_config
from understudy.methods.contract import Method, PublicInputs
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.team.team import Team
from understudy.progress import Progress, ProgressLines
from understudy.run.context import choose_device
from understudy.run.execute_plan import MethodInputs, execute_plan
from understudy.run.folder import RunFolder, create_run_folder
from understudy.run.sampling import sample, sampling_device
from understudy.run.team_worker import work_for_leader

PHASES = ("fit", "sample", "classify")
OK, FAILED, LACKING, UNFINISHED = 0, 1, 2, 3
_SAY_EVERY = 10.0


def main(words: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(words)
    phases = tuple(asked.phases.split(","))
    try:
        if not set(phases) <= set(PHASES):
            raise UserError(f"--phases takes {', '.join(PHASES)}, by comma, not {asked.phases}.")
        if asked.check:
            return say_what_is_there(asked.job, asked.cells)
        check_documents(asked.job, asked.cells)
        cells = job_folders(asked.job, asked.cells)
        if asked.result is not None:
            check_result_place(asked.result)
        team = Team.join(choose_device(asked.device))
        files = join_files(asked.job, files_needed(cells), drop=asked.drop_pieces)
        if team.leads:
            code = work_off(files, cells, phases, asked.device, asked.stop_after, team)
        else:
            code = help_to_work_off(files, cells, phases, asked.device, team)
        if asked.result is not None and team.leads:
            folders = job_folders(asked.job)
            write_result(asked.job, folders, asked.result, samples=asked.samples == "all")
        if code == OK:  # else torchrun sees it, and stops the others
            team.leave()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return code


def say_what_is_there(job: Path, cells: str) -> int:
    """A line for each file that these cells need, and for all that is missing or damaged."""
    found = survey(job, cells)
    for line in found.lines:
        print(line)
    if not found.lacking:
        print("nothing is missing.")
        return OK
    print(f"bring what is missing or damaged into {job}: {found.lacking} files.")
    return LACKING


def work_off(
    files: JoinedFiles,
    folders: Sequence[Path],
    phases: Sequence[str],
    device: str,
    stop_after: float | None,
    team: Team,
) -> int:
    """These cells of the job in turn; one that fails does not keep the others, unless several
    processes work on it: where they stand is then unknown, and all must begin anew."""
    code = OK
    try:
        with _alarm(stop_after):
            for number, folder in enumerate(folders, start=1):
                lines = Lines(f"[{number}/{len(folders)}] {_title(folder)}")
                try:
                    work_on_cell(files, folder, phases, device, lines, team)
                except Exception as error:  # noqa: BLE001 - whatever a method raises is told
                    lines.say(f"failed: {type(error).__name__}: {error}")
                    code = FAILED
                    if not team.alone:
                        return code
    except KeyboardInterrupt:
        print("stopped; what was finished is kept: the same command goes on.", flush=True)
        return UNFINISHED
    return code


def help_to_work_off(
    files: JoinedFiles, folders: Sequence[Path], phases: Sequence[str], device: str, team: Team
) -> int:
    """What every other process does: follow the first one's fits, and leave it the rest."""
    try:
        for folder in folders:
            if "fit" in phases and (folder / FILE).exists() and team.number():
                work_for_leader(method_inputs(FitJob.read(folder), files, device), team)
    except KeyboardInterrupt:
        return UNFINISHED
    return OK


def _is_job(path: Path) -> bool:
    return path.name == FILE or path.name.startswith("classify-")


def _title(folder: Path) -> str:
    if (folder / FILE).exists():
        return FitJob.read(folder).title
    return ClassifyJob.all_of(folder)[0].title


def job_folders(job: Path, pattern: str = "*") -> list[Path]:
    """The cells of a job whose names fit a pattern as of files, in the order of their names."""
    found = {p.parent.name for p in (job / "cells").glob("*/*.json") if _is_job(p)}
    return [job / "cells" / name for name in cells_named(pattern, found, job)]


def work_on_cell(
    files: JoinedFiles,
    folder: Path,
    phases: Sequence[str],
    device: str,
    progress: Progress,
    team: Team,
) -> None:
    """One cell of a job: a fit, or the classifiers of an evaluation, or both in turn."""
    if (folder / FILE).exists():
        fit_away(files, folder, phases, device, progress, team)
    if "classify" in phases:
        for job in ClassifyJob.all_of(folder):
            _check_package(job.package, job.title)
            provenance = replace(Provenance.read(), commit=job.commit, dirty=job.dirty)
            classify_away(files, folder, job, device, provenance, progress)
    progress.say("done")


def fit_away(
    files: JoinedFiles,
    folder: Path,
    phases: Sequence[str],
    device: str,
    progress: Progress,
    team: Team,
) -> None:
    """One fit, and its samples if they are asked for; what is done is not done again."""
    job, run = FitJob.read(folder), RunFolder(folder / "run")
    if not run.path.exists():
        create_run_folder(run.path, lambda new: new.write_plan(job.plan, job.run))
    provenance = provenance_of(job)
    if "fit" in phases and team.number(int(not (run.path / "fit.json").exists())):
        progress.say("fit" if team.alone else f"fit, by {team.size} processes")
        inputs = method_inputs(job, files, device)
        used = str(choose_device(device))
        with measured(provenance, used) as found, run.timed("fit"):
            execute_plan(run, inputs, NoiseSource(), progress, team)
        run.write_json("fit.json", found.to_json(job.keys["fit"], run.times()["fit"]))
    if "sample" in phases and not (run.path / "sample.json").exists():
        progress.say("sample")
        method = _method_of(job)
        used = str(sampling_device(method, device))
        with measured(provenance, used) as found, run.timed("sample"):
            sample(run, run, method, job.samples, job.seed, device, progress)
        run.write_json("sample.json", found.to_json(job.keys["sample"], run.times()["sample"]))


def method_inputs(job: FitJob, files: JoinedFiles, device: str) -> MethodInputs:
    """The method and its records; refuses code that is not what the plan was made for."""
    method = _method_of(job)
    _check_package(job.package, job.title)
    schema = Schema.from_json(job.schema)
    parts = {name: read_arrays(files.path(file), schema) for name, file in job.records.items()}
    for name, records in parts.items():
        if records.shape != job.shape:
            raise UserError(f"{job.records[name]} holds other records than {job.title} needs.")
    return MethodInputs(
        method=method,
        config=build_config(method.Config, job.config),
        parts=parts,
        counts=job.counts,
        device=device,
        seed=job.seed,
        samples=job.samples,
        shard_key=job.shard_key,
        public=_public(job, files),
    )


def _method_of(job: FitJob) -> Method:
    method = job.load_method()
    if code_digest(method) != job.code:
        raise UserError(_other_code(job.method, job.title))
    return method


def _check_package(packed: str, title: str) -> None:
    if package_digest() != packed:
        raise UserError(_other_code("this package", title))


def _other_code(whose: str, title: str) -> str:
    return (
        f"the code of {whose} is not that for which {title} was packed; bring the same files here."
    )


def _public(job: FitJob, files: JoinedFiles) -> PublicInputs:
    """The job's public records and weights; what is made from records is kept beside them.

    Guarantee: as `run.public.public_inputs`, a method without public records has no place that
    outlasts its run.
    """
    found = {
        name: read_arrays(files.path(packed["file"]), Schema.from_json(packed["schema"]))
        for name, packed in job.public.items()
    }
    weights = {
        name: WeightsFile.from_json(packed["told"], files.path(packed["file"]))
        for name, packed in job.weights.items()
    }
    return PublicInputs(found, weights, files.root / "made-from-public-data" if found else None)


class Lines(ProgressLines):
    """What is done on one cell, each line under its title."""

    def __init__(self, title: str) -> None:
        super().__init__(lambda line: print(f"{title}: {line}", flush=True), _SAY_EVERY)


@contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """As by Ctrl-C after so many seconds: the work stops at its next good moment."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def provenance_of(job: FitJob) -> Provenance:
    """Of this machine. A copy whose files are those that were packed is that commit, whatever a
    repository around it says."""
    here = Provenance.read()
    if package_digest() == job.package:
        return replace(here, commit=job.commit, dirty=job.dirty)
    return here


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="understudy.bench.away", description=__doc__)
    parser.add_argument("job", type=Path, help="the folder that `understudy bench pack` wrote")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--phases", default="fit", help="of fit,sample,classify, by comma")
    parser.add_argument("--cells", default="*", help="only those named like this: '*-epsilon-10-*'")
    parser.add_argument("--check", action="store_true", help="say which pieces are there; no more")
    parser.add_argument(
        "--drop-pieces",
        action="store_true",
        help="delete the pieces of each file once it is joined",
    )
    parser.add_argument("--result", type=Path, help="a folder for what is finished, in small files")
    parser.add_argument(
        "--samples", default="all", choices=("all", "none"), help="whether the result holds samples"
    )
    parser.add_argument("--stop-after", type=float, help="stop at a good moment after SECONDS")
    return parser
