"""Training the classifiers of an evaluation where only torch, numpy and safetensors are."""

from __future__ import annotations

import time
from pathlib import Path

from understudy.bench.away.classify_job import CLASSIFIED, REFERENCES, Classified, ClassifyJob
from understudy.bench.away.joining import JoinedFiles
from understudy.bench.evidence.provenance import Provenance
from understudy.bench.work.measuring import measured, peak_gigabytes
from understudy.data.record_arrays import read_arrays
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.evaluation.case import Case
from understudy.evaluation.classifier_figures import Binding, ClassifierFigures, only_label
from understudy.evaluation.references import References
from understudy.evaluation.utility import train_for
from understudy.progress import Progress
from understudy.run.context import choose_device
from understudy.run.folder import RunFolder


def classify_away(
    files: JoinedFiles,
    folder: Path,
    job: ClassifyJob,
    device: str,
    provenance: Provenance,
    progress: Progress,
) -> None:
    """Every figure that is not there yet; each is on the disk before the next is begun.

    Cut off, a training that was under way is begun again; those before it are not.
    """
    path = folder / "run" / CLASSIFIED / f"{job.short}.json"
    if path.exists() and Classified.read(path).done:
        return
    parts = _parts(files, folder, job)
    if parts is None:
        progress.say("classify: is not sampled yet")
        return
    progress.say("classify")
    synthetic, train, test = parts
    real = job.train if train is None else train
    binding = Binding.of(synthetic, real, test, job.protocol, seed=job.seed, version=job.version)
    before = _known(path, job, binding)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    used, start = choose_device(device), time.monotonic()
    with measured(provenance, str(used)) as found:

        def write(done: bool = False) -> None:
            found.peak_gigabytes = peak_gigabytes()
            seconds = before.seconds + time.monotonic() - start
            phase = found.to_json(job.keys["evaluate"], seconds)
            Classified(before.key, binding, tuple(case.figures), phase, done).write(path)

        case = Case(
            synthetic,
            train,
            test,
            job.protocol,
            device=used,
            seed=job.seed,
            progress=progress,
            figures=ClassifierFigures(before.figures, write),
            references=References(files.root / REFERENCES, job.version),
        )
        try:
            train_for(case)
        except BaseException:
            write()  # the time that was spent counts, whatever ended it
            raise
        write(done=True)


def _parts(
    files: JoinedFiles, folder: Path, job: ClassifyJob
) -> tuple[Records, Records | None, Records] | None:
    """Synthetic, train and test records with their label alone; None before it is sampled."""
    found = {k: read_arrays(files.path(f), job.schema) for k, f in job.records.items()}
    if "synthetic" not in found:
        run = RunFolder(folder / "run")
        if not run.samples.exists():
            return None
        found["synthetic"] = run.load_samples()
    parts = {name: only_label(records) for name, records in found.items()}
    return parts["synthetic"], parts.get("train"), parts["test"]


def _known(path: Path, job: ClassifyJob, binding: Binding) -> Classified:
    if not path.exists():
        return Classified(job.keys["evaluate"], binding)
    found = Classified.read(path)
    if found.key != job.keys["evaluate"]:
        raise UserError(f"{path} is of another evaluation; remove it.")
    found.binding.check(binding, str(path))
    return found
