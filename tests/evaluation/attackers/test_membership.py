"""Membership by density and by shadow models: a planted leak, an independent sample."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluation.attackers.attack_cases import (
    check_leak,
    check_nothing,
    leaking,
    lower_quality,
    sound,
    with_coin,
)
from tests.evaluation.evaluation_cases import make_case
from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.evaluation.attackers.membership import DensityMembership
from understudy.evaluation.attackers.shadows import (
    ShadowMembership,
    balanced_masks,
    log_likelihood_ratio,
    log_odds,
)
from understudy.evaluation.protocol import Protocol


@pytest.mark.parametrize("space", ["pixels", "random-conv"])
def test_copies_are_recognised_by_density(digits: Records, quick: Protocol, space: str) -> None:
    row = DensityMembership(space).row(leaking(digits, quick))
    check_leak(row)
    assert row.value is not None
    assert row.value > 0.85
    assert (row.metric, row.variant) == ("membership by density, AUROC v1", space)
    assert row.extractor == (None if space == "pixels" else space)


@pytest.mark.parametrize("space", ["pixels", "random-conv"])
def test_an_independent_sample_tells_nobody_apart(
    digits: Records, quick: Protocol, space: str
) -> None:
    check_nothing(DensityMembership(space).row(sound(digits, quick)))


def test_duplicates_alone_are_no_reason_to_fail(digits: Records, quick: Protocol) -> None:
    """All held-out records are one picture: there is no distance to take a bandwidth from."""
    same = digits.select(np.zeros(40, np.int64))
    row = DensityMembership("pixels").row(make_case(same, same, same, quick))
    check_nothing(row)


class FewShadows(ShadowMembership):
    shadows = 6


def test_copies_are_recognised_by_shadow_models(digits: Records, quick: Protocol) -> None:
    row = FewShadows().row(leaking(with_coin(digits), lower_quality(quick)))
    check_leak(row)
    assert row.variant == "mlp, 6 shadows"
    assert row.selection == "last-epoch"


def test_shadow_models_of_an_independent_sample(digits: Records, quick: Protocol) -> None:
    check_nothing(FewShadows().row(sound(with_coin(digits), lower_quality(quick))))


def test_training_records_may_have_fewer_columns_than_held_out_ones(
    digits: Records, quick: Protocol
) -> None:
    """A run keeps the columns that it uses; the test part of a catalog set has them all."""
    coined = with_coin(digits)
    more = coined.with_schema(Schema(coined.schema.attributes, label="digit"))
    some = digits.select(np.arange(60))
    row = FewShadows().row(make_case(some, some, more.select(np.arange(60, 120)), quick))
    assert row.status == "ok", row.reason


def test_each_candidate_is_in_half_of_the_shadows() -> None:
    masks = np.array(balanced_masks(16, 101, seed=0))
    assert (masks.sum(axis=0) == 8).all()
    assert len({mask.tobytes() for mask in masks}) == 16


def test_likelihood_ratio_by_hand() -> None:
    """Means 2 (with) and 0 (without), pooled variance 2: log ratio (t - 1) at t."""
    shadows = np.array([[1.0], [3.0], [-1.0], [1.0]])
    inside = [np.array([True]), np.array([True]), np.array([False]), np.array([False])]
    for target in (-1.0, 1.0, 4.0):
        found = log_likelihood_ratio(np.array([target]), shadows, inside)
        assert found == pytest.approx([(target**2 - (target - 2) ** 2) / 4])


def test_log_odds_are_of_the_own_label_and_finite() -> None:
    found = log_odds(np.array([[0.8, 0.2], [0.5, 0.5], [1.0, 0.0]]), np.array([0, 1, 0]))
    assert found[:2] == pytest.approx([np.log(4), 0.0])
    assert np.isfinite(found).all()


def test_membership_without_the_training_records_is_a_row_that_says_so(
    digits: Records, quick: Protocol
) -> None:
    row = DensityMembership("pixels").row(make_case(digits, None, digits, quick))
    assert row.reason == "needs the real training records, which were not given"
