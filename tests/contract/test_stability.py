"""Splits, shards and duplicates stay as they are when one more record comes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pytest

from tests.privacy.rig import KEY, records
from understudy.audit.stability import Place, moved_by
from understudy.data.dedup import deduplicate
from understudy.data.records import Records, concatenate
from understudy.data.splits import keyed_split, shard_of, stratified_split
from understudy.privacy.door.ensemble import make_shards

PARTS = {"train": 0.7, "test": 0.3}


def by_content(parts: Sequence[Records], whole: Records) -> list[Hashable]:
    """The part of each record of the whole, found by its pixels."""
    home = {f.tobytes(): number for number, part in enumerate(parts) for f in part.features}
    return [home.get(f.tobytes(), "nowhere") for f in whole.features]


def parts_of(whole: Records) -> list[Hashable]:
    return by_content(list(keyed_split(whole, PARTS, KEY).values()), whole)


def shards_of(whole: Records) -> list[Hashable]:
    return by_content(make_shards(whole, whole, 5, KEY), whole)


def shard_numbers_of(whole: Records) -> list[Hashable]:
    return list(shard_of(whole, 5, KEY).tolist())


def kept_of(whole: Records) -> list[Hashable]:
    return by_content([deduplicate(whole).records], whole)


def stratified_parts_of(whole: Records) -> list[Hashable]:
    return by_content(list(stratified_split(whole, PARTS, seed=0).values()), whole)


def by_position(whole: Records) -> list[Hashable]:
    return list((np.arange(len(whole)) % 5).tolist())


def by_rank(whole: Records) -> list[Hashable]:
    order = np.argsort([f.tobytes() for f in whole.features])
    return list((np.argsort(order) % 5).tolist())


STABLE: list[Place] = [parts_of, shards_of, shard_numbers_of, kept_of]
UNSTABLE: list[Place] = [stratified_parts_of, by_position, by_rank]


@pytest.mark.parametrize("place", STABLE, ids=lambda p: p.__name__)
@pytest.mark.parametrize("units", [False, True], ids=["images", "people"])
def test_one_more_moves_nobody(place: Place, units: bool) -> None:
    names = [f"p{i // 2}" for i in range(60)] if units else None
    base = records(60, units=names)
    more = records(3, seed=9, units=["new"] * 3) if units else records(1, seed=9)
    assert moved_by(place, base, more) == [], "records changed their places"


@pytest.mark.parametrize("place", STABLE, ids=lambda p: p.__name__)
def test_a_duplicate_moves_nobody(place: Place) -> None:
    base = records(30)
    assert moved_by(place, base, base.select([7])) == [], "records changed their places"


@pytest.mark.parametrize("place", UNSTABLE, ids=lambda p: p.__name__)
def test_places_that_hang_on_all_records_are_seen_to_move(place: Place) -> None:
    assert moved_by(place, records(60), records(1, seed=9))


def test_a_split_is_the_same_after_records_are_shuffled() -> None:
    base = records(40)
    order = np.random.default_rng(0).permutation(40)
    shuffled = concatenate([base.select([i]) for i in order])
    assert [parts_of(base)[i] for i in order] == parts_of(shuffled)
