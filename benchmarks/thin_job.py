"""A packed job of DP-SGD fits made many times cheaper, for comparing settings and nothing else.

    understudy bench pack SUITE --classify --work W --home H -o JOB
    python benchmarks/thin_job.py JOB --images 128                      (here; rewrites the job)
    python -m understudy.bench.away JOB --device cuda --phases fit,sample,classify     (there)

A step moves by the mean of clipped gradients. Beside the clip, that mean has the plan's noise, of
norm sigma * sqrt(parameters) / batch, and an error of sampling, of norm at most 1 / sqrt(batch).
With a denoiser of two million parameters at epsilon 1 or 10 the first is 0.5 to 4 and the second
0.03: the mean over a few images, with as much noise as the plan puts on the whole batch's, makes
almost the same step. So `--images` replaces the batch, and sigma shrinks with it.

What such a fit releases is not private: its plan says so (no guarantee, epsilon infinite), its
title begins with "simulation of", and the account book, which knows the packed run, refuses to
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

TITLE = "simulation of "


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", type=Path)
    parser.add_argument("--images", type=int, default=128, help="of a step, instead of its batch")
    asked = parser.parse_args(words)
    for folder in job_folders(asked.job):
        if (folder / FILE).exists():
            thin = thinned(FitJob.read(folder), asked.images)
            (folder / FILE).write_text(json.dumps(thin.to_json(), indent=1), encoding="utf-8")
            print(f"{thin.title}: {noise_norms(thin)}")


def thinned(job: FitJob, images: int) -> FitJob:
    """The same fit with `images` a step instead of its batch, and as much noise on their mean."""
    if job.title.startswith(TITLE):
        raise SystemExit(f"{job.title}: this job is thinned already; pack it again.")
    if images > job.config["batch"]:
        raise SystemExit(f"--images {images} is more than the batch {job.config['batch']}.")
    share = images / job.config["batch"]
    plan = Plan(
        Budget.empirical(job.plan.delta),
        tuple(_thinner(mechanism, share) for mechanism in job.plan.mechanisms),
        math.inf,
        "none: a simulation",
        Plan.new_ident(),
        job.plan.relation,
    )
    return replace(
        job,
        title=TITLE + job.title,
        token=secrets.token_hex(16),
        plan=plan,
        config={**job.config, "batch": images},
    )


def noise_norms(job: FitJob) -> str:
    """How far the error of sampling is below the plan's noise: what the simulation rests on."""
    found = [
        f"noise {m.sigma / job.config['batch']:.2g} x sqrt(parameters)"
        for m in job.plan.mechanisms
        if isinstance(m, DPSGD)
    ]
    return f"{', '.join(found)}; sampling at most {1 / math.sqrt(job.config['batch']):.2g}"


def _thinner(mechanism: Mechanism, share: float) -> Mechanism:
    if not isinstance(mechanism, DPSGD):
        return mechanism
    return replace(mechanism, rate=mechanism.rate * share, sigma=mechanism.sigma * share)


if __name__ == "__main__":
    main()
