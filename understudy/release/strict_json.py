"""JSON that is read strictly: what is missing, unknown or of the wrong type is named.

A release comes from strangers, so nothing in it is taken on trust: duplicate keys,
NaN and numbers in the place of words are errors, each naming the field.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from understudy.errors import UserError


def canonical_bytes(value: Any) -> bytes:
    """One form per value: sorted keys, no spaces, ASCII; what hashes and signatures cover."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


def readable_bytes(value: Any) -> bytes:
    """Indented UTF-8 for people, in the order given; also one form per value."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def parse_object(data: bytes, where: str) -> dict[str, Any]:
    """The JSON object in these bytes; `where` is how errors call it."""
    try:
        value = json.loads(
            data.decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=_no_repeats,
        )
        if b"\\u" in data:  # half a surrogate pair is valid JSON, and no text
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not readable JSON: {error}.") from error
    if not isinstance(value, dict):
        raise UserError(f"{where} must hold one JSON object.")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large a number")
    return value


def _no_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


class Fields:
    """A JSON object being read; remembers which fields were asked for.

    Errors read `claim.json: field tuning.covered must be true or false, not 'yes'.`
    """

    def __init__(self, data: Any, where: str, path: str = "") -> None:
        self._where, self._path = where, path
        if not isinstance(data, Mapping):
            raise UserError(f"{where}: {self._here()} must be an object, not {data!r}.")
        self._data = data
        self._seen: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether a field is there that a later version added, or that is often left out."""
        return name in self._data

    def names(self) -> tuple[str, ...]:
        """Every field that is there."""
        return tuple(self._data)

    def text(self, name: str) -> str:
        value = self._get(name)
        return value if isinstance(value, str) else self._wrong(name, "words", value)

    def optional_text(self, name: str) -> str | None:
        return None if self._get(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        value = self._get(name)
        return value if isinstance(value, bool) else self._wrong(name, "true or false", value)

    def whole(self, name: str) -> int:
        """A whole number, 0 or above."""
        value = self._get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self._wrong(name, "a whole number, 0 or above", value)
        return int(value)

    def number(self, name: str) -> float:
        """A number, 0 or above; the word "infinity" stands for what JSON cannot write."""
        value = self._get(name)
        if value == "infinity":
            return math.inf
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            self._wrong(name, 'a number, 0 or above, or "infinity"', value)
        return float(value)

    def optional_number(self, name: str) -> float | None:
        return None if self._get(name) is None else self.number(name)

    def hexadecimal(self, name: str, digits: int = 64) -> str:
        """Lower-case digits only, so that there is one way to write a value."""
        value = self.text(name)
        if len(value) != digits or set(value) - set("0123456789abcdef"):
            self._wrong(name, f"{digits} lower-case hexadecimal digits", value)
        return value

    def one_of(self, name: str, allowed: Sequence[str]) -> str:
        value = self.text(name)
        return value if value in allowed else self._wrong(name, " or ".join(allowed), value)

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._list(name)
        if not all(isinstance(value, str) for value in values):
            self._wrong(name, "a list of words", values)
        return tuple(values)

    def wholes(self, name: str) -> tuple[int, ...]:
        values = self._list(name)
        if not all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in values):
            self._wrong(name, "a list of whole numbers", values)
        return tuple(values)

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._get(name)
        return dict(value) if isinstance(value, Mapping) else self._wrong(name, "an object", value)

    def text_mapping(self, name: str) -> dict[str, str]:
        value = self.mapping(name)
        if not all(isinstance(v, str) for v in value.values()):
            self._wrong(name, "an object of words", value)
        return value

    def part(self, name: str) -> Fields:
        return Fields(self._get(name), self._where, f"{self._path}{name}.")

    def parts(self, name: str) -> tuple[Fields, ...]:
        return tuple(
            Fields(item, self._where, f"{self._path}{name}[{position}].")
            for position, item in enumerate(self._list(name))
        )

    def end(self) -> None:
        """Refuse fields that nobody asked for."""
        unknown = sorted(set(self._data) - self._seen)
        if unknown:
            raise UserError(f"{self._where}: unknown field {self._path}{unknown[0]}.")

    def _list(self, name: str) -> list[Any]:
        value = self._get(name)
        return list(value) if isinstance(value, list | tuple) else self._wrong(name, "list", value)

    def _get(self, name: str) -> Any:
        self._seen.add(name)
        if name not in self._data:
            raise UserError(f"{self._where}: field {self._path}{name} is missing.")
        return self._data[name]

    def _wrong(self, name: str, right: str, value: Any) -> NoReturn:
        shown = repr(value) if len(repr(value)) < 80 else repr(value)[:77] + "..."
        raise UserError(f"{self._where}: field {self._path}{name} must be {right}, not {shown}.")

    def _here(self) -> str:
        return f"field {self._path.rstrip('.')}" if self._path else "the whole"
