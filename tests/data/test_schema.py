"""What a schema refuses."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError

GOOD: dict[str, Any] = {
    "attributes": [{"name": "digit", "classes": ["0", "1"]}],
    "label": "digit",
    "sensitive": [],
    "utility": [],
}


def test_a_schema_comes_back_from_json() -> None:
    assert Schema.from_json(GOOD).to_json() == GOOD


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        ({"name": "digit", "classes": ["0", 1]}, "are text, not 1"),
        ({"name": "digit", "classes": [None, "1"]}, "are text, not None"),
        ({"name": 7, "classes": ["0", "1"]}, "are text, not 7"),
        ({"name": "digit", "classes": []}, "has no classes"),
        ({"name": "digit", "classes": ["0", "0"]}, "names a class twice"),
    ],
)
def test_attributes_that_are_none_are_refused(attribute: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Schema.from_json({**GOOD, "attributes": [attribute]})


def columns(*names: str) -> Schema:
    return Schema(tuple(Attribute(name, ("a", "b")) for name in names))


def test_a_column_that_names_persons_is_offered_as_unit_and_not_as_label() -> None:
    with pytest.raises(UserError, match="pass --label with one of: finding, eyes") as caught:
        _ = columns("finding", "patient_id", "eyes").label_attribute
    assert str(caught.value).endswith(
        "eyes; and --unit patient_id, which seems to say whose a record is: without it images are "
        "protected, and persons are not."
    )
    with pytest.raises(UserError, match=r"one of: finding, eyes\.$"):
        _ = columns("finding", "eyes").label_attribute
    with pytest.raises(UserError, match="one of: patient"):
        _ = columns("patient", "subject").label_attribute
