from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.data.samples import make_records
from understudy.data.dedup import deduplicate, shared_between, without_shared
from understudy.data.records import Records, concatenate


def test_equal_pixels_and_attributes_go_once():
    records = make_records(6)
    doubled = concatenate([records, records.select([4, 1, 1])])
    found = deduplicate(doubled)
    assert found.dropped == 3
    assert (found.records.features == records.features).all()
    assert (found.records.labels == records.labels).all()


def test_nothing_is_copied_where_nothing_is_dropped():
    records = make_records(6)
    assert deduplicate(records).records is records


def test_equal_pixels_with_another_attribute_stay():
    records = make_records(3)
    other = {**records.attributes, "tone": 1 - records.attributes["tone"]}
    both = concatenate([records, replace(records, attributes=other)])
    assert deduplicate(both).dropped == 0


def test_equal_attributes_with_one_other_pixel_stay():
    records = make_records(3)
    pixels = records.features.copy()
    pixels[:, 0, 4, 4] ^= 1
    assert deduplicate(concatenate([records, replace(records, features=pixels)])).dropped == 0


def owned(records: Records, *units: str) -> Records:
    return replace(records, units=np.array(units))


def test_duplicates_go_within_a_unit_only():
    one = make_records(1).select([0, 0, 0, 0])
    found = deduplicate(owned(one, "ann", "ben", "ann", "ben"))
    assert found.dropped == 2
    assert found.records.units.tolist() == ["ann", "ben"]


def test_removing_one_unit_changes_nothing_outside_it():
    """The guarantee of the docstring, and a twin without units that breaks it."""
    one = make_records(1)
    together = owned(one.select([0, 0]), "ann", "ben")
    alone = together.select(together.units == "ben")
    kept = deduplicate(together).records
    assert len(kept.select(kept.units == "ben")) == len(deduplicate(alone).records) == 1
    blind = deduplicate(replace(together, units=None)).records
    assert len(blind) == 1


def test_soft_labels_count_as_annotations():
    records = make_records(2).select([0, 0])
    soft = np.array([[0.2, 0.8], [0.2, 0.8]])
    same = replace(records, attributes={**records.attributes, "tone": soft})
    assert deduplicate(same).dropped == 1
    soft = np.array([[0.2, 0.8], [0.3, 0.7]])
    assert deduplicate(replace(same, attributes={**same.attributes, "tone": soft})).dropped == 0


def test_parts_that_share_images_are_found_whatever_the_attributes_say():
    train, test = make_records(6, seed=1), make_records(4, seed=2)
    train.features[5] = test.features[3]
    train.features[1] = test.features[3]
    parts = {"train": train, "test": test, "validation": make_records(3, seed=3)}
    assert shared_between(parts) == {("train", "test"): 1}
    distinct = without_shared(parts)
    assert len(distinct["train"]) == 6, "the first part stays as it is"
    assert (distinct["test"].features == test.features[:3]).all()
    assert distinct["validation"] is parts["validation"]
    assert shared_between(distinct) == {}


def test_parts_that_share_nothing_are_left_alone():
    parts = {"train": make_records(5, seed=1), "test": make_records(5, seed=2)}
    assert shared_between(parts) == {}
    assert without_shared(parts) == parts
