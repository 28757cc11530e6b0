"""A packed job of DP-SGD fits made many times cheaper, for comparing settings and nothing else.

    understudy bench pack SUITE --classify --work W --home H -o JOB
    python benchmarks/thin_job.py JOB --images 128                      (here; rewrites the job)
    python -m understudy.bench.away JOB --device cuda --phases fit,sample,classify     (there)

A step moves by the mean of clipped gradients. Beside the clip, that mean has the plan's noise, of
norm sigma * sqrt(parameters) / batch, and an error of sampling, of norm at most 1 / sqrt(images).
With a denoiser of one to two million parameters at epsilon 1 or 10 the first is 0.5 to 4; the
second is 0.03 for a batch of 1,024 and 0.09 for 128 images. So the mean over a few images, with as
much noise as the plan puts on the whole batch's, makes almost the same step. Rate and sigma of the
plan shrink together; the settings stay those that are simulated. With `--steps 1` almost nothing is
left but what comes before private steps, as DP-FETA's central images, with the whole plan's noise.

What such a fit releases is not private, so it is refused for images that are not those of a public
dataset of the catalog: its plan says so (no guarantee, epsilon infinite), its
title begins with "simulation", and the workspace that packed it knows no such plan and refuses to
collect it.
"""

from __future__ import annotations

import argparse
import json
import math
import secrets
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from understudy.bench.away.fit_jobs import job_folders
from understudy.bench.away.job import FILE, FitJob
from understudy.bench.away.joining import join_files
from understudy.bench.away.packed_files import PackedFiles
from understudy.data.load import load
from understudy.privacy.plan.mechanisms import DPSGD, Mechanism
from understudy.privacy.plan.plan import Budget, Plan
from understudy.run.audit import is_public

TITLE = "simulation"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", type=Path)
    parser.add_argument("--images", type=int, default=128, help="of a step, instead of its batch")
    parser.add_argument("--steps", type=int, help="of the private ones, instead of all")
    asked = parser.parse_args(words)
    folders = [folder for folder in job_folders(asked.job) if (folder / FILE).exists()]
    whole = {folder: FitJob.read(folder) for folder in folders}
    require_public(asked.job, whole.values())
    files = PackedFiles.open(asked.job)
    jobs = {folder: thinned(job, asked.images, asked.steps) for folder, job in whole.items()}
    for folder, thin in jobs.items():
        (folder / FILE).write_text(json.dumps(thin.to_json(), indent=1), encoding="utf-8")
        files.add_document(folder / FILE)
        print(f"{thin.title}: {folder.name}")


def require_public(root: Path, jobs: Collection[FitJob]) -> None:
    """Refuse images that the catalog does not know as public, whatever their dataset is called."""
    for name in sorted({_dataset(job) for job in jobs} - {TITLE}):
        if not is_public(name):
            raise SystemExit(
                f"a thinned fit protects nobody; use a public dataset of the catalog, not {name}."
            )
        known = {image.tobytes() for part in load(name).parts.values() for image in part.features}
        files = {f for job in jobs if _dataset(job) == name for f in job.records.values()}
        joined = join_files(root, files)
        for file in sorted(files):
            with np.load(joined.path(file), allow_pickle=False) as kept:
                if not all(image.tobytes() in known for image in kept["features"]):
                    raise SystemExit(f"{file} holds images that are not those of {name}.")


def _dataset(job: FitJob) -> str:
    return job.title.split()[0]


def thinned(job: FitJob, images: int, steps: int | None = None) -> FitJob:
    """The same fit with `images` a step instead of its batch, and as much noise on their mean;
    steps: takes so many of its private steps alone."""
    batch, all_steps = job.config["batch"], job.config["steps"]
    taken = all_steps if steps is None else steps
    if job.title.startswith(TITLE):
        raise SystemExit(f"{job.title}: this job is thinned already; pack it again.")
    if not 1 <= images <= batch:
        raise SystemExit(f"--images must lie between 1 and the batch {batch}, not {images}.")
    if not 1 <= taken <= all_steps:
        raise SystemExit(f"--steps must lie between 1 and {all_steps}, not {taken}.")
    plan = Plan(
        Budget.empirical(job.plan.delta),
        tuple(_thinner(mechanism, images / batch, taken) for mechanism in job.plan.mechanisms),
        math.inf,
        "none: a simulation",
        Plan.new_ident(),
        job.plan.relation,
    )
    some = "" if taken == all_steps else f" of {taken} of {all_steps:,} steps"
    title = f"{TITLE}{some} with {images} images a step: {job.title}"
    config = {**job.config, "steps": taken}
    return replace(job, title=title, token=secrets.token_hex(16), plan=plan, config=config)


def _thinner(mechanism: Mechanism, share: float, steps: int) -> Mechanism:
    if not isinstance(mechanism, DPSGD):
        return mechanism
    return replace(
        mechanism, steps=steps, rate=mechanism.rate * share, sigma=mechanism.sigma * share
    )


if __name__ == "__main__":
    main()
