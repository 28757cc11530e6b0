"""Conditions of samples: given codes are kept, all others come evenly and independently."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.data.schema import Attribute
from understudy.errors import UserError
from understudy.methods.conditions import condition_codes

KIND, EYES = Attribute("kind", ("a", "b", "c")), Attribute("eyes", ("blue", "brown"))


def test_given_codes_are_kept_and_the_others_are_even() -> None:
    wanted = [1] * 600
    codes = condition_codes(600, {"eyes": wanted}, (KIND, EYES), seed=0)
    assert list(codes) == ["kind", "eyes"]
    assert codes["eyes"].tolist() == wanted
    assert np.bincount(codes["kind"]).tolist() == [200, 200, 200]


def test_attributes_are_drawn_independently() -> None:
    """Two columns of one stream would be the same order twice."""
    codes = condition_codes(6000, None, (KIND, Attribute("more", KIND.classes)), seed=0)
    table = np.zeros((3, 3))
    np.add.at(table, (codes["kind"], codes["more"]), 1)
    assert abs(table / 6000 - 1 / 9).max() < 0.02


def test_the_seed_decides() -> None:
    one, same = (condition_codes(50, None, (KIND,), seed=3)["kind"] for _ in range(2))
    assert (one == same).all()
    assert (one != condition_codes(50, None, (KIND,), seed=4)["kind"]).any()


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({"eyes": [0, 1]}, "conditions on 'eyes' must be 3 whole numbers"),
        ({"eyes": [0.5, 0.0, 1.0]}, "conditions on 'eyes' must be 3 whole numbers"),
        ({"eyes": [0, 1, 2]}, "conditions on 'eyes' must be codes from 0 to 1"),
        ({"eyes": [0, 1, -1]}, "conditions on 'eyes' must be codes from 0 to 1"),
        ({"eye": [0, 1, 1]}, "samples have no attribute 'eye'; did you mean eyes"),
    ],
)
def test_wrong_conditions_are_refused(conditions: dict[str, list[float]], words: str) -> None:
    with pytest.raises(UserError, match=words):
        condition_codes(3, conditions, (KIND, EYES), seed=0)
