"""Fidelity: names, references, and that worse images get worse figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluation.evaluation_cases import make_case, with_noise
from understudy.data.records import Records
from understudy.evaluation.case import Case
from understudy.evaluation.distances import frechet_distance
from understudy.evaluation.fidelity import (
    Coverage,
    Density,
    Fidelity,
    FrechetDistance,
    KernelDistance,
    Precision,
    Recall,
)
from understudy.evaluation.protocol import Protocol

ALL = (FrechetDistance, KernelDistance, Precision, Recall, Density, Coverage)


def test_fid_and_kid_are_names_for_inception_only() -> None:
    titles = {kind: [kind(e).title for e in ("inception-v3", "squeezenet")] for kind in ALL}
    assert titles == {
        FrechetDistance: ["FID", "FD[squeezenet]"],
        KernelDistance: ["KID", "KD[squeezenet]"],
        Precision: ["precision[inception-v3]", "precision[squeezenet]"],
        Recall: ["recall[inception-v3]", "recall[squeezenet]"],
        Density: ["density[inception-v3]", "density[squeezenet]"],
        Coverage: ["coverage[inception-v3]", "coverage[squeezenet]"],
    }


@pytest.fixture(scope="module")
def cases(train: Records, test_part: Records, quick: Protocol) -> dict[str, Case]:
    """The training part itself, a little spoilt, and badly spoilt."""
    return {
        name: make_case(with_noise(train, scale), train, test_part, quick)
        for name, scale in (("real", 0.0), ("near", 40.0), ("far", 120.0))
    }


@pytest.mark.parametrize("kind", ALL)
def test_worse_images_get_worse_figures(kind: type[Fidelity], cases: dict[str, Case]) -> None:
    rows = {name: kind("random-conv").row(case) for name, case in cases.items()}
    assert all(row.status == "ok" for row in rows.values())
    values = [rows[name].value or 0.0 for name in ("real", "near", "far")]
    assert values == sorted(values, reverse=kind.direction == "higher")
    assert len(set(values)) == 3
    for row in rows.values():
        assert row.low is not None
        assert row.high is not None
        assert row.low <= (row.value or 0.0) <= row.high


@pytest.mark.parametrize("kind", ALL)
def test_the_reference_is_real_against_real_at_the_same_count(
    kind: type[Fidelity], cases: dict[str, Case]
) -> None:
    """For a synthetic set that is the training part, value and reference coincide."""
    real = kind("random-conv").row(cases["real"])
    assert real.reference == pytest.approx(real.value)
    far = kind("random-conv").row(cases["far"])
    assert far.reference == pytest.approx(real.value)


def test_the_value_is_that_of_the_plain_function_on_the_features(cases: dict[str, Case]) -> None:
    case = cases["near"]
    features = [case.features(part, "random-conv") for part in ("synthetic", "test")]
    assert [f.shape for f in features] == [(200, 256), (200, 256)]
    row = FrechetDistance("random-conv").row(case)
    assert row.value == pytest.approx(frechet_distance(*features).value)
    assert row.extractor == "random-conv"


def test_without_training_records_there_is_no_reference(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    row = FrechetDistance("random-conv").row(make_case(train, None, test_part, quick))
    assert (row.status, row.reference) == ("ok", None)


def test_a_training_part_too_small_gives_no_reference_of_another_size(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    small = train.select(np.arange(150))
    row = FrechetDistance("random-conv").row(make_case(train, small, test_part, quick))
    assert (row.status, row.reference) == ("ok", None)


def test_a_protocol_may_compare_with_the_training_part(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    against_train = replace(quick, fidelity_against="train")
    same = FrechetDistance("random-conv").row(make_case(train, train, test_part, against_train))
    assert same.value == pytest.approx(0.0, abs=1e-6)
    assert same.reference is not None
    assert same.reference > 0.001
    missing = FrechetDistance("random-conv").row(make_case(train, None, test_part, against_train))
    assert missing.reason == "needs the real training records, which were not given"


def test_records_that_are_not_images_fail_with_that_reason(train: Records, quick: Protocol) -> None:
    latents = replace(train, features=train.features.reshape(len(train), -1).astype(np.float32))
    row = FrechetDistance("random-conv").row(make_case(latents, latents, latents, quick))
    assert (row.status, row.reason) == ("failed", "needs images")


def test_too_few_images_fail_with_the_number_needed(train: Records, quick: Protocol) -> None:
    few = train.select(np.arange(10))
    row = KernelDistance("random-conv").row(make_case(few, train, train, quick))
    assert row.status == "failed"
    assert row.reason == "this distance needs at least 20 records on each side, not 10 and 10."
