"""Keyed splits are stable; stratified splits are proportional; each claim has its broken twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.data.samples import make_records, refused
from understudy.data.records import Images, Records, concatenate
from understudy.data.schema import Attribute, Schema
from understudy.data.splits import keyed_split, shard_of, stratified_split

KEY = bytes(range(32))
PARTS = {"train": 0.7, "tune": 0.1, "test": 0.2}

Split = Callable[[Records], Mapping[str, Records]]


def contents_by_part(parts: Mapping[str, Records]) -> dict[bytes, str]:
    return {row.tobytes(): name for name, part in parts.items() for row in part.features}


def moved_by_adding(split: Split, records: Records, added: Records) -> int:
    """How many of the old records change their part when others are put in front."""
    before = contents_by_part(split(records))
    after = contents_by_part(split(concatenate([added, records])))
    return sum(after[content] != part for content, part in before.items())


def by_index(records: Records) -> dict[str, Records]:
    """The broken twin: a record's part follows from its position."""
    drawn = np.random.default_rng(0).random(len(records))
    return {"train": records.select(drawn < 0.7), "test": records.select(drawn >= 0.7)}


def by_shuffled_index(records: Records) -> dict[str, Records]:
    """Another: the usual shuffle, where the count decides who goes where."""
    order = np.random.default_rng(0).permutation(len(records))
    cut = int(0.7 * len(records))
    return {"train": records.select(order[:cut]), "test": records.select(order[cut:])}


@pytest.mark.parametrize("units", [None, 40])
def test_adding_one_record_moves_no_other(units):
    records, added = make_records(500, 1, units), make_records(1, 2, units)
    assert moved_by_adding(lambda r: keyed_split(r, PARTS, KEY), records, added) == 0


@pytest.mark.parametrize("broken", [by_index, by_shuffled_index])
def test_the_same_check_catches_a_split_by_position(broken):
    assert moved_by_adding(broken, make_records(500, 1), make_records(1, 2)) > 50


def test_a_stratified_split_does_move_others_and_is_not_for_private_records():
    moved = moved_by_adding(
        lambda r: stratified_split(r, PARTS, seed=0), make_records(500, 1), make_records(1, 2)
    )
    assert moved > 50


def test_a_new_class_does_not_move_old_records():
    """Codes shift when a new class sorts first; a record's content must not."""
    records = make_records(300)
    wider = Schema((Attribute("shape", ("0", "a", "b", "c")), records.schema.attribute("tone")))
    shifted = {**records.attributes, "shape": records.attributes["shape"] + 1}
    recoded = replace(records, attributes=shifted, schema=wider)
    before = contents_by_part(keyed_split(records, PARTS, KEY))
    assert contents_by_part(keyed_split(recoded, PARTS, KEY)) == before


def test_the_part_depends_on_pixels_and_not_on_attributes():
    """One record with an empty cell takes a column away from all; nobody may move by that."""
    copies = make_records(1).select(np.zeros(400, int))
    assert sorted(len(p) for p in keyed_split(copies, PARTS, KEY).values()) == [0, 0, 400]
    pixels = copies.features.copy()
    pixels[:, 0, 0, 0] = np.arange(400) % 256
    by_pixels = keyed_split(replace(copies, features=pixels), PARTS, KEY)
    assert min(len(part) for part in by_pixels.values()) > 0
    records = make_records(300)
    narrower = replace(
        records,
        attributes={"shape": records.attributes["shape"]},
        schema=Schema((records.schema.attribute("shape"),)),
    )
    before = contents_by_part(keyed_split(records, PARTS, KEY))
    assert contents_by_part(keyed_split(narrower, PARTS, KEY)) == before
    assert (shard_of(narrower, 7, KEY) == shard_of(records, 7, KEY)).all()


def test_every_record_lands_in_one_part_in_about_its_share():
    records = make_records(6000)
    parts = keyed_split(records, PARTS, KEY)
    assert sum(len(part) for part in parts.values()) == len(records)
    for name, share in PARTS.items():
        # Five standard deviations of a binomial: a false alarm in about two million.
        slack = 5 * np.sqrt(6000 * share * (1 - share))
        assert abs(len(parts[name]) - 6000 * share) < slack


def test_the_key_decides():
    records = make_records(500)
    same = contents_by_part(keyed_split(records, PARTS, KEY))
    assert contents_by_part(keyed_split(records, PARTS, bytes(KEY))) == same
    assert contents_by_part(keyed_split(records, PARTS, KEY[::-1])) != same


def test_all_records_of_a_unit_stay_together():
    parts = keyed_split(make_records(900, units=60), PARTS, KEY)
    people = [set(part.units.tolist()) for part in parts.values()]
    assert sum(len(group) for group in people) == len(set.union(*people))
    shards = shard_of(make_records(900, units=60), 7, KEY)
    units = make_records(900, units=60).units
    assert all(len(set(shards[units == unit])) == 1 for unit in set(units.tolist()))


def test_shards_are_even_within_a_part():
    """Shards must not follow from the part: under one key they are independent."""
    train = keyed_split(make_records(9000), {"train": 0.2, "rest": 0.8}, KEY)["train"]
    counts = np.bincount(shard_of(train, 10, KEY), minlength=10)
    expected = len(train) / 10
    # Chi-square with 9 degrees of freedom exceeds 40 about once in 100,000 keys.
    assert ((counts - expected) ** 2 / expected).sum() < 40


def test_shards_are_stable_too():
    records, added = make_records(300, 1), make_records(1, 2)
    alone = shard_of(records, 9, KEY)
    assert (shard_of(concatenate([added, records]), 9, KEY)[1:] == alone).all()
    assert set(shard_of(records, 1, KEY).tolist()) == {0}


def skewed(count: int, seed: int) -> Records:
    """Three attributes, one with rare classes, as a benchmark would have them."""
    rng = np.random.default_rng(seed)
    rare = np.minimum(rng.geometric(0.35, count) - 1, 11)
    attributes = {
        "rare": rare,
        "band": rng.integers(0, 9, count),
        "flag": (rare + rng.integers(0, 2, count)) % 2,
    }
    schema = Schema(
        (
            Attribute("rare", tuple(map(str, range(12)))),
            Attribute("band", tuple(map(str, range(9)))),
            Attribute("flag", ("n", "y")),
        )
    )
    return Images(rng.integers(0, 256, (count, 1, 2, 2), np.uint8), attributes, schema)


def worst_gap(parts: Mapping[str, Records], whole: Records) -> float:
    """The largest distance, in records, of any class in any part from its share."""
    worst = 0.0
    for name, share in PARTS.items():
        for attribute in whole.schema.attributes:
            size = len(attribute.classes)
            wanted = share * np.bincount(whole.attributes[attribute.name], minlength=size)
            found = np.bincount(parts[name].attributes[attribute.name], minlength=size)
            worst = max(worst, float(np.abs(found - wanted).max()))
    return worst


def test_stratified_parts_are_proportional_where_random_parts_are_not():
    records = skewed(3000, 0)
    drawn = np.random.default_rng(0).choice(3, 3000, p=list(PARTS.values()))
    at_random = {name: records.select(drawn == i) for i, name in enumerate(PARTS)}
    stratified = stratified_split(records, PARTS, seed=0)
    assert sum(len(part) for part in stratified.values()) == 3000
    assert worst_gap(stratified, records) <= 4.0
    assert worst_gap(at_random, records) > 12.0


def test_stratified_splits_repeat_by_seed():
    records = skewed(400, 1)
    first = contents_by_part(stratified_split(records, PARTS, seed=3))
    assert contents_by_part(stratified_split(records, PARTS, seed=3)) == first
    assert contents_by_part(stratified_split(records, PARTS, seed=4)) != first


def test_a_rare_class_reaches_every_part():
    count = 200
    codes = np.zeros(count, int)
    codes[:10] = 1
    schema = Schema((Attribute("x", ("common", "rare")),))
    records = Images(np.zeros((count, 1, 1, 1), np.uint8), {"x": codes}, schema)
    parts = stratified_split(records, PARTS, seed=0)
    assert {n: int(p.attributes["x"].sum()) for n, p in parts.items()} == {
        "train": 7,
        "tune": 1,
        "test": 2,
    }


def test_stratified_split_refuses_to_tear_units():
    with refused("units", "keyed_split"):
        stratified_split(make_records(20, units=3), PARTS, seed=0)


@pytest.mark.parametrize(
    ("fractions", "word"),
    [
        ({}, "positive"),
        ({"a": 0.0, "b": 1.0}, "positive"),
        ({"a": -0.1, "b": 1.1}, "positive"),
        ({"a": float("nan")}, "positive"),
        ({"a": 0.5, "b": 0.4}, "add up to 1"),
    ],
)
def test_fractions_must_be_shares(fractions, word):
    for split in (
        lambda: keyed_split(make_records(5), fractions, KEY),
        lambda: stratified_split(make_records(5), fractions, 0),
    ):
        with refused("fractions", word):
            split()


def test_short_keys_and_no_shards_are_refused():
    with refused("key", "16"):
        keyed_split(make_records(5), PARTS, b"short")
    with refused("shards"):
        shard_of(make_records(5), 0, KEY)


def test_a_part_may_be_empty():
    parts = keyed_split(make_records(1), PARTS, KEY)
    assert sorted(len(part) for part in parts.values()) == [0, 0, 1]
