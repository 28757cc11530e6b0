from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from understudy.data.content import content_digest, contents
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema

words = st.text(min_size=0, max_size=4)


def content(name: str, value: str, other: str, features: list[float]) -> bytes:
    """The content of one record with this one annotation."""
    classes = (value, other) if other != value else (value,)
    schema = Schema((Attribute(name, classes),))
    return next(contents(Records(np.array([features], np.float32), {name: np.array([0])}, schema)))


@given(words, words, words, words)
def test_different_annotations_have_different_content(name, value, other_name, other_value):
    same = (name, value) == (other_name, other_value)
    first = content(name, value, "z", [1.0])
    assert (first == content(other_name, other_value, "z", [1.0])) == same


@given(words, words, words)
def test_classes_that_a_record_does_not_have_do_not_matter(name, value, other):
    assert content(name, value, other, [1.0]) == content(name, value, "z", [1.0])


def test_shape_and_type_count():
    schema = Schema(())
    arrays = [
        np.zeros((1, 4), np.float32),
        np.zeros((1, 2, 2), np.float32),
        np.zeros((1, 16), np.uint8),
    ]
    assert len({next(contents(Records(array, {}, schema))) for array in arrays}) == 3


def test_the_order_of_columns_does_not_count():
    attributes = (Attribute("a", ("x", "y")), Attribute("b", ("u", "v")))
    columns = {"a": np.array([1]), "b": np.array([0])}
    features = np.ones((1, 3), np.float32)
    one = Records(features, columns, Schema(attributes))
    two = Records(features, columns, Schema(attributes[::-1], label="a"))
    assert list(contents(one)) == list(contents(two))


def test_a_digest_covers_pixels_labels_and_their_order():
    schema = Schema((Attribute("a", ("x", "y")),))
    pixels = np.arange(4, dtype=np.float32).reshape(2, 2)
    first = Records(pixels, {"a": np.array([0, 1])}, schema)
    assert content_digest(first) == content_digest(first.select(np.array([0, 1])))
    labels = Records(pixels, {"a": np.array([1, 1])}, schema)
    assert content_digest(first) != content_digest(labels), "other labels have the same digest"
    assert content_digest(first) != content_digest(first.select(np.array([1, 0])))
    assert content_digest(first) != content_digest(first.select(np.array([0])))
