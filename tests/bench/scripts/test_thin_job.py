"""Fits made cheap for comparing settings: the same noise on the mean of fewer images."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.bench.away.test_classify_away import collected, measured_cell, packed, work_off
from tests.bench.scripts.test_tuning_table import DENOISER
from tests.scripts import load_script
from tests.workplace import Workplace
from understudy.bench.away import fit_jobs as away
from understudy.bench.away.job import FORMAT, FitJob
from understudy.bench.away.joining import join_files
from understudy.bench.away.manifest import PIECES, Manifest
from understudy.bench.away.packed_files import PIECE_SIZE
from understudy.bench.away.pieces import split
from understudy.errors import UserError
from understudy.privacy.plan.mechanisms import DPSGD, NoisySum

script = load_script("thin_job")
table = load_script("tuning_table")
FETA = (*DENOISER, "central_steps=1", "central_batch=4")


def packed_job(place: Workplace, method: str, settings: tuple[str, ...]) -> FitJob:
    packed(place, measured_cell(place, method=method, settings=settings))
    (folder,) = away.job_folders(place / "job")
    return FitJob.read(folder)


def test_the_mean_over_fewer_images_has_the_same_noise(workplace: Workplace) -> None:
    job = packed_job(workplace, "dp-feta", FETA)
    thin = script.thinned(job, 2)
    whole, thinned = job.plan.mechanism("denoiser"), thin.plan.mechanism("denoiser")
    assert isinstance(whole, DPSGD)
    assert isinstance(thinned, DPSGD)
    count = job.counts["train"]
    assert thinned.rate * count == pytest.approx(2)
    assert thinned.sigma / 2 == pytest.approx(whole.sigma / 8)
    assert (thinned.steps, thinned.clip) == (whole.steps, whole.clip)
    assert thin.config == job.config, "settings that are compared must stay visible"
    sums = [plan.mechanism("central images") for plan in (job.plan, thin.plan)]
    assert isinstance(sums[0], NoisySum)
    assert sums[0] == sums[1]


def test_it_claims_nothing_and_never_comes_home(workplace: Workplace) -> None:
    packed_job(workplace, "dpdm", DENOISER)
    script.main([str(workplace / "job"), "--images", "4"])
    (folder,) = away.job_folders(workplace / "job")
    thin = FitJob.read(folder)
    assert math.isinf(thin.plan.epsilon)
    assert thin.plan.budget.is_empirical
    assert work_off(workplace) == away.OK
    (row,) = table.table(workplace / "job")
    assert row["title"].startswith("simulation with 4 images a step: ")
    assert row["accuracy"]
    with pytest.raises(UserError, match="no packed run here has its plan"):
        collected(workplace, "job")


@pytest.mark.parametrize("images", [0, 9])
def test_images_beyond_the_batch_or_none_change_nothing(workplace: Workplace, images: int) -> None:
    large = tuple("batch=10" if change == "batch=8" else change for change in DENOISER)
    cells = [measured_cell(workplace, method="dpdm", settings=s) for s in (large, DENOISER)]
    packed(workplace, *cells)
    folders = away.job_folders(workplace / "job")
    before = [FitJob.read(folder) for folder in folders]
    with pytest.raises(SystemExit, match=f"between 1 and the batch .*, not {images}"):
        script.main([str(workplace / "job"), "--images", str(images)])
    assert [FitJob.read(folder) for folder in folders] == before, "half of a job is thinned"


def test_a_job_is_thinned_once(workplace: Workplace) -> None:
    job = packed_job(workplace, "dpdm", DENOISER)
    with pytest.raises(SystemExit, match="thinned already"):
        script.thinned(script.thinned(job, 4), 2)


def test_few_steps_have_the_noise_of_all(workplace: Workplace) -> None:
    longer = tuple("steps=3" if change.startswith("steps=") else change for change in FETA)
    job = packed_job(workplace, "dp-feta", longer)
    few = script.thinned(job, 8, 1)
    whole, taken = job.plan.mechanism("denoiser"), few.plan.mechanism("denoiser")
    assert isinstance(whole, DPSGD)
    assert isinstance(taken, DPSGD)
    assert whole.steps > 1
    assert (taken.steps, taken.sigma) == (1, whole.sigma)
    assert few.config == {**job.config, "steps": 1}
    assert few.title.startswith(f"simulation of 1 of {whole.steps} steps with 8 images a step: ")
    with pytest.raises(SystemExit, match=f"--steps must lie between 1 and {whole.steps}, not 0"):
        script.thinned(job, 8, 0)


def test_images_that_are_not_public_are_refused_whatever_they_are_called(
    workplace: Workplace,
) -> None:
    job = packed_job(workplace, "dpdm", DENOISER)
    root = workplace / "job"
    script.require_public(root, [job])
    with pytest.raises(SystemExit, match=r"protects nobody; .* not scans"):
        script.require_public(root, [replace(job, title=job.title.replace("digits", "scans"))])
    (name,) = job.records.values()
    with np.load(join_files(root, [name]).path(name)) as kept:
        columns = dict(kept)
    columns["features"] = 255 - columns["features"]
    np.savez(root / name, **columns)
    with (root / name).open("rb") as file:  # as if it had been packed so
        packed_so = split(file, root / PIECES, PIECE_SIZE)
    Manifest.read(root, FORMAT).with_file(name, packed_so).write(root)
    (folder,) = away.job_folders(root)
    with pytest.raises(SystemExit, match="images that are not those of digits"):
        script.main([str(root), "--images", "4"])
    assert FitJob.read(folder) == job
