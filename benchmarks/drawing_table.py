"""Ways of drawing from denoisers that a sweep has fitted, compared without fitting again.

    python benchmarks/drawing_table.py JOB --cells PATTERN --ways benchmarks/tuning/ways.json \
        --device cuda --json FILE                  (where the job was worked on; torch only)

Every way draws as many images as the job's cells do, and the classifiers of the job's protocol
learn from them. Accuracies are of test records: as in `tuning_table.py`, what is chosen here is
for other datasets than the one it was chosen on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from understudy.bench.away.classify_job import ClassifyJob
from understudy.bench.away.fit_jobs import job_folders
from understudy.bench.away.job import FitJob
from understudy.bench.away.joining import join_files
from understudy.data.record_arrays import read_arrays
from understudy.data.records import Records
from understudy.evaluation.case import Case
from understudy.evaluation.classifier_figures import only_label
from understudy.evaluation.utility import train_for
from understudy.methods.diffusion.synthesizer import DiffusionSynthesizer
from understudy.progress import Silent


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", type=Path)
    parser.add_argument("--cells", default="*", help="names of cells, as of files")
    parser.add_argument("--ways", type=Path, required=True, help="a JSON list of settings")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, required=True, help="what was found, after each way")
    asked = parser.parse_args(words)
    rows: list[dict[str, Any]] = []
    for folder in job_folders(asked.job, asked.cells):
        if not (folder / "run" / "synthesizer.json").exists():
            print(f"not fitted yet: {folder.name}", flush=True)
            continue
        for way in json.loads(asked.ways.read_text(encoding="utf-8")):
            rows.append(figures(asked.job, folder, way, torch.device(asked.device)))
            print(json.dumps(rows[-1]), flush=True)
            asked.json.write_text(json.dumps(rows, indent=1))


def figures(job: Path, folder: Path, way: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Accuracies of the classifiers that learned from images drawn in one way."""
    fit, start = FitJob.read(folder), time.perf_counter()
    fitted = DiffusionSynthesizer.load(folder / "run" / "synthesizer")
    drawn = fitted.with_drawing(replace(fitted.drawing, **way))
    drawn.work_on(device, Silent())
    made = drawn.sample(fit.samples, seed=fit.seed)
    seconds = time.perf_counter() - start
    accuracy = _accuracies(job, ClassifyJob.all_of(folder)[0], made, device)
    return {
        **{"title": fit.title, "run": folder.name, "config": dict(fit.config), "way": way},
        **{"accuracy": accuracy, "drawing_seconds": seconds},
    }


def _accuracies(
    job: Path, classify: ClassifyJob, made: Records, device: torch.device
) -> dict[str, float | None]:
    test = classify.records["test"]
    case = Case(
        only_label(made),
        None,
        only_label(read_arrays(join_files(job, {test}).path(test), classify.schema)),
        classify.protocol,
        device=device,
        seed=classify.seed,
        progress=Silent(),
    )
    train_for(case)
    return {f.classifier: f.accuracy for f in case.figures if f.learned == "synthetic"}


if __name__ == "__main__":
    main()
