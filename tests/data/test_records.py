"""What columns records accept: codes of declared classes, or rows of a simplex."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.samples import make_records, refused
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema

SCHEMA = Schema((Attribute("mood", ("calm", "glad", "sad")),), label="mood")


def with_mood(column: np.ndarray) -> Records:
    return Records(np.zeros((len(column), 4), np.float32), {"mood": column}, SCHEMA)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_rows_of_a_simplex_are_soft_labels(kind: type[np.floating]) -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 200).astype(kind)
    records = with_mood(rows)
    assert records.soft == ("mood",)
    assert records.labels.tolist() == rows.argmax(axis=1).tolist()
    assert records.select([3, 1]).soft == ("mood",)


def test_codes_are_not_soft() -> None:
    assert with_mood(np.array([0, 2, 1])).soft == ()
    assert make_records(4).soft == ()


def test_no_records_may_have_soft_labels_too() -> None:
    assert len(with_mood(np.zeros((0, 3), np.float32))) == 0


@pytest.mark.parametrize(
    "row",
    [
        [0.5, 0.5, 0.1],
        [0.5, 0.4, 0.0],
        [1.2, -0.2, 0.0],
        [np.nan, 0.5, 0.5],
        [np.inf, 0.0, 0.0],
        [np.inf, -np.inf, 1.0],
        [0.0, 0.0, 0.0],
        [0.334, 0.334, 0.3341],
    ],
)
def test_rows_outside_the_simplex_are_refused_by_row(row: list[float]) -> None:
    good = [0.2, 0.3, 0.5]
    with refused("'mood'", "add up to 1", "row 2"):
        with_mood(np.array([good, good, row, good]))


def test_rounding_is_allowed_up_to_a_thousandth() -> None:
    with_mood(np.array([[0.3333, 0.3333, 0.3333], [0.333, 0.333, 0.3349]]))


def test_other_forms_are_refused() -> None:
    with refused("'mood'", "[N, 3] probabilities"):
        with_mood(np.full((2, 2), 0.5))
    with refused("'mood'", "floating-point", "int64"):
        with_mood(np.eye(3, dtype=np.int64))
