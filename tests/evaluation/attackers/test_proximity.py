"""DCR, NNDR and identical records: by hand, with a planted leak, without one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluation.attackers.attack_cases import check_leak, check_nothing, leaking, sound
from tests.evaluation.attackers.attack_cases import three_parts as parts
from tests.evaluation.evaluation_cases import make_case
from understudy.data.records import Records
from understudy.evaluation.attackers.proximity import (
    ClosestRecord,
    IdenticalRecords,
    SharpestRatio,
    repeated,
    surroundings,
)
from understudy.evaluation.intervals import wilson
from understudy.evaluation.protocol import Protocol


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def test_distances_and_ratios_by_hand() -> None:
    """Training 0 and 10, held out 4 and 16; records at 1, 2, 7, 13 and 10."""
    around = surroundings(column(1, 2, 7, 13, 10), column(0, 10), column(4, 16))
    assert around.chance == 0.5
    assert around.found.distances.tolist() == [[1, 3], [2, 2], [3, 3], [3, 3], [0, 6]]
    assert around.ratios == pytest.approx([1 / 3, 1, 1, 1, 0])
    # 1 is nearest to training 0; 2, 7 and 13 lie in the middle; 10 is a copy.
    assert around.credits.tolist() == [1, 0.5, 0.5, 0.5, 1]


def test_guessing_is_the_share_of_training_records() -> None:
    """1 lies between two training records, 6.5 between one of each, 9 is held out."""
    around = surroundings(column(1, 6.5, 9), column(0, 2, 4), column(9))
    assert around.chance == 0.75
    assert around.credits.tolist() == [1, 0.75, 0]


def test_a_copy_of_two_equal_records_points_at_neither() -> None:
    assert surroundings(column(5), column(5, 5), column(9)).ratios.tolist() == [1.0]


def test_a_crowd_around_one_record_counts_as_one_trial() -> None:
    """99 records around one training record and one around a held-out one."""
    records = column(*[0.0] * 99, 10.0)
    around = surroundings(records, column(0, 3), column(10, 13))
    found = around.share(slice(None))
    assert found.value == pytest.approx(0.99)
    trials = 100**2 / (99**2 + 1)
    assert found.low == wilson(0.99, trials).low
    assert found.low < 0.5, "in spite of 99 of 100"


@pytest.mark.parametrize("attack", [ClosestRecord, SharpestRatio])
@pytest.mark.parametrize("space", ["pixels", "random-conv"])
def test_copies_and_an_independent_sample(
    digits: Records,
    quick: Protocol,
    attack: type[ClosestRecord] | type[SharpestRatio],
    space: str,
) -> None:
    row = attack(space).row(leaking(digits, quick))
    check_leak(row, control=0.2)
    assert row.value == 1.0
    assert row.metric.endswith("share of training v1")
    check_nothing(attack(space).row(sound(digits, quick)))


def test_the_ratio_finds_a_few_copies_that_closeness_does_not(
    digits: Records, quick: Protocol
) -> None:
    train, test, fresh = parts(digits)
    pixels = fresh.features.copy()
    pixels[:40] = train.features[:40]
    case = make_case(replace(fresh, features=pixels), train, test, quick)
    assert ClosestRecord("pixels").row(case).note is not None
    check_leak(SharpestRatio("pixels").row(case), control=0.2)


def test_identical_records(digits: Records, quick: Protocol) -> None:
    found = IdenticalRecords("pixels").row(leaking(digits, quick))
    check_leak(found)
    assert (found.value, found.chance, found.reference) == (1.0, 0.0, 0.0)
    nothing = IdenticalRecords("pixels").row(sound(digits, quick))
    check_nothing(nothing)
    assert nothing.value == 0.0


def test_duplicates_in_the_data_are_not_taken_for_copies(digits: Records, quick: Protocol) -> None:
    """The release holds one picture that training and held-out records hold alike."""
    train, test, fresh = parts(digits)
    blank = np.zeros_like(train.features[:1])
    with_blanks = [
        replace(part, features=np.concatenate([part.features[:-n], np.repeat(blank, n, axis=0)]))
        for part, n in ((fresh, 3), (train, 50), (test, 60))
    ]
    row = IdenticalRecords("pixels").row(make_case(*with_blanks, quick))
    assert row.value == pytest.approx(3 / 500)
    assert row.chance is not None
    assert row.chance > row.value
    assert row.note is not None


def test_repeated_is_byte_for_byte() -> None:
    one = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    near = one.copy()
    near[1, 0, 0] += 1
    assert repeated(near, one).tolist() == [True, False, True]
    assert repeated(one, one.reshape(3, 4)).tolist() == [False, False, False]
