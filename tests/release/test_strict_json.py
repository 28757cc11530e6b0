import math

import pytest

from understudy.errors import UserError
from understudy.release.strict_json import Fields, canonical_bytes, parse_object, readable_bytes


def test_canonical_form_is_one_form() -> None:
    assert canonical_bytes({"b": 1, "a": "é"}) == b'{"a":"\\u00e9","b":1}'


def test_readable_form_keeps_order_and_letters() -> None:
    assert readable_bytes({"b": 1, "a": "é"}) == '{\n  "b": 1,\n  "a": "é"\n}\n'.encode()


@pytest.mark.parametrize(
    "data",
    [b"{", b"[1]", b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":Infinity}', b"\xff", b"[" * 100_000],
)
def test_unreadable_json_is_named(data: bytes) -> None:
    with pytest.raises(UserError, match=r"claim\.json"):
        parse_object(data, "claim.json")


def test_fields_read_what_is_there() -> None:
    fields = Fields({"n": 3, "e": "infinity", "t": ["x"], "p": {"f": True}, "o": None}, "file")
    assert fields.whole("n") == 3
    assert math.isinf(fields.number("e"))
    assert fields.texts("t") == ("x",)
    assert fields.part("p").flag("f") is True
    assert fields.optional_text("o") is None
    fields.end()


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        ("text", 1),
        ("flag", 1),
        ("whole", True),
        ("whole", -1),
        ("whole", 1.0),
        ("number", "1"),
        ("number", -0.5),
        ("number", True),
        ("texts", ["a", 1]),
        ("texts", "a"),
        ("wholes", [1, -1]),
        ("mapping", []),
        ("text_mapping", {"a": 1}),
        ("hexadecimal", "A" * 64),
        ("hexadecimal", "a" * 63),
        ("parts", {}),
    ],
)
def test_wrong_values_name_file_and_field(reader: str, value: object) -> None:
    fields = Fields({"outer": {"inner": value}}, "claim.json").part("outer")
    with pytest.raises(UserError, match=r"claim\.json: field outer\.inner must be"):
        getattr(fields, reader)("inner")


def test_missing_unknown_and_misplaced_fields_are_named() -> None:
    with pytest.raises(UserError, match="field a is missing"):
        Fields({}, "f").text("a")
    fields = Fields({"a": "x", "zz": 1}, "f")
    fields.text("a")
    with pytest.raises(UserError, match="unknown field zz"):
        fields.end()
    with pytest.raises(UserError, match="field a must be an object"):
        Fields({"a": 1}, "f").part("a")
