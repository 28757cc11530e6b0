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

What such a fit releases is not private: its plan says so (no guarantee, epsilon infinite), its
title begins with "simulation", and the workspace that packed it knows no such plan and refuses to
collect it.
"""

from __future__ import annotations

import argparse
import json
import math
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from understudy.bench.away import job_folders
from understudy.bench.job import FILE, FitJob
from understudy.privacy.mechanisms import DPSGD, Mechanism
from understudy.privacy.plan import Budget, Plan

TITLE = "simulation"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", type=Path)
    parser.add_argument("--images", type=int, default=128, help="of a step, instead of its batch")
    parser.add_argument("--steps", type=int, help="of the private ones, instead of all")
    asked = parser.parse_args(words)
    folders = [folder for folder in job_folders(asked.job) if (folder / FILE).exists()]
    jobs = {folder: thinned(FitJob.read(folder), asked.images, asked.steps) for folder in folders}
    for folder, thin in jobs.items():
        (folder / FILE).write_text(json.dumps(thin.to_json(), indent=1), encoding="utf-8")
        print(f"{thin.title}: {folder.name}")


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
