"""Fits made cheap for comparing settings: the same noise on the mean of fewer images."""

from __future__ import annotations

import math

import pytest

from tests.bench.test_classify_away import collected, measured_cell, packed, work_off
from tests.bench.test_tuning_table import DENOISER
from tests.scripts import load_script
from tests.workplace import Workplace
from understudy.bench import away
from understudy.bench.job import FitJob
from understudy.errors import UserError
from understudy.privacy.mechanisms import DPSGD, NoisySum

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
    assert row["title"].startswith("simulation of ")
    assert row["accuracy"]
    with pytest.raises(UserError, match="no packed run here has its plan"):
        collected(workplace, "job")


def test_a_job_is_thinned_once_and_to_less(workplace: Workplace) -> None:
    job = packed_job(workplace, "dpdm", DENOISER)
    with pytest.raises(SystemExit, match="more than the batch 8"):
        script.thinned(job, 9)
    with pytest.raises(SystemExit, match="thinned already"):
        script.thinned(script.thinned(job, 4), 2)
