"""How near is too near, read off records that were not fitted on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.release.forge import make_records
from understudy.data.records import Images, Records
from understudy.release.near_copies import CopyScan, scan_copies

PRIVATE, HELD_OUT, FRESH = (make_records(n, seed=s) for n, s in ((80, 1), (60, 2), (50, 3)))


def planted(count: int, noise: float = 0.0) -> Records:
    """New records, the first few of which are private ones with noise."""
    pixels = FRESH.features.copy()
    random = np.random.default_rng(4)
    copies = PRIVATE.features[:count] + random.normal(0, noise, (count, *FRESH.shape))
    pixels[:count] = np.clip(np.rint(copies), 0, 255)
    return replace(FRESH, features=pixels)


def test_new_records_are_no_copies() -> None:
    found = scan_copies(FRESH, PRIVATE, HELD_OUT)
    assert (found.exact, found.near, found.sentences()) == (0, 0, [])
    assert (found.count, found.looked_at, found.held_out) == (50, 50, 60)


def test_the_limit_is_a_quarter_of_what_held_out_records_keep() -> None:
    apart = HELD_OUT.features.reshape(60, 1, -1).astype(float) - PRIVATE.features.reshape(1, 80, -1)
    nearest = np.sqrt((apart**2).sum(axis=2)).min(axis=1)
    found = scan_copies(FRESH, PRIVATE, HELD_OUT)
    assert found.limit == pytest.approx(0.25 * np.quantile(nearest, 0.05))


def test_exact_copies_are_counted_apart_from_near_ones() -> None:
    found = scan_copies(planted(3), PRIVATE, HELD_OUT)
    assert (found.exact, found.near) == (3, 0)
    assert found.sentences() == ["3 of the 50 records are copies of private ones."]


@pytest.mark.parametrize("noise", [1.0, 5.0])
def test_noise_does_not_hide_a_copy(noise: float) -> None:
    found = scan_copies(planted(2, noise), PRIVATE, HELD_OUT)
    assert (found.exact, found.near) == (0, 2)
    assert "2 of 50 records are near copies of private ones" in found.sentences()[0]


@pytest.mark.parametrize("held_out", [None, HELD_OUT.select(np.arange(5))])
def test_private_records_stand_in_for_too_few_held_out_ones(held_out: Records | None) -> None:
    assert scan_copies(FRESH, PRIVATE, held_out).sentences() == []
    found = scan_copies(planted(1, 2.0), PRIVATE, held_out)
    assert found.near == 1
    assert found.held_out == len(PRIVATE)


def test_a_sample_is_looked_at_for_near_copies_and_all_for_exact_ones() -> None:
    found = scan_copies(planted(50), PRIVATE, HELD_OUT, most=10)
    assert (found.exact, found.looked_at) == (50, 10)


def scan(near: int, natural: int) -> CopyScan:
    return CopyScan(1000, 0, 1000, near, 1000, natural, 1.0)


def test_near_duplicates_of_the_data_itself_are_allowed_for() -> None:
    assert scan(near=1, natural=0).too_near == 1
    assert scan(near=30, natural=28).too_near == 0
    assert scan(near=90, natural=28).too_near == 90


def test_other_shapes_and_few_records_are_no_reason_to_fail() -> None:
    assert scan_copies(FRESH, make_records(9, channels=3)).sentences() == []
    one = PRIVATE.select(np.array([0]))
    assert scan_copies(planted(1), one).exact == 1
    same = Images(np.repeat(one.features, 30, axis=0), {"digit": np.zeros(30, int)}, one.schema)
    assert scan_copies(FRESH, same, same).limit == 0.0
