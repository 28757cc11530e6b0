"""Which records belong to which unit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.privacy.rig import records
from understudy.privacy.sums.units import UnitIndex


def test_without_units_every_record_is_its_own() -> None:
    index = UnitIndex(records(5))
    rows, owners = index.rows(np.array([3, 1]))
    assert len(index) == 5
    assert index.single
    assert rows.tolist() == owners.tolist() == [3, 1]


def test_all_records_of_a_unit_come_together_and_only_they() -> None:
    names = ["b", "a", "b", "c", "a", "b"]
    index = UnitIndex(records(6, units=names))
    assert len(index) == 3
    assert not index.single
    rows, owners = index.rows(np.arange(3))
    assert [names[r] for r in rows] == ["a", "a", "b", "b", "b", "c"]
    assert owners.tolist() == [0, 0, 1, 1, 1, 2]
    assert sorted(rows.tolist()) == list(range(6))
    rows, owners = index.rows(np.array([2, 1]))
    assert [names[r] for r in rows] == ["c", "b", "b", "b"]
    assert owners.tolist() == [2, 1, 1, 1]


def test_units_of_one_record_each_are_found_in_any_order() -> None:
    names = ["c", "a", "b"]
    index = UnitIndex(records(3, units=names))
    assert index.single
    rows, owners = index.rows(np.arange(3))
    assert [names[r] for r in rows] == ["a", "b", "c"]
    assert owners.tolist() == [0, 1, 2]


@pytest.mark.parametrize("units", [None, []])
def test_no_records_means_no_units(units: list[str] | None) -> None:
    index = UnitIndex(records(0, units=units))
    rows, owners = index.rows(np.arange(0))
    assert len(index) == len(rows) == len(owners) == 0


def test_nobody_chosen_gives_no_rows() -> None:
    index = UnitIndex(records(4, units=["a", "a", "b", "b"]))
    rows, owners = index.rows(np.array([], dtype=np.int64))
    assert len(rows) == len(owners) == 0
