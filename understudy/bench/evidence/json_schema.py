"""Checks a JSON value against a schema, strictly: the first wrong field is named.

The schema is JSON Schema (draft 2020-12), of which the words below are known; a schema with
any other is refused, so that no rule can be written down and then silently not checked.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from understudy.errors import UserError

Schema = Mapping[str, Any] | bool
Problem = tuple[str, str]
"""The path of a field, and what is wrong with it."""

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
_TYPE_WORDS = {
    "object": "an object",
    "array": "a list",
    "string": "words",
    "boolean": "true or false",
    "null": "null",
    "integer": "a whole number",
    "number": "a number",
}
_KNOWN = frozenset(
    {"$schema", "$defs", "$ref", "title", "type", "const", "enum", "pattern", "minLength"}
    | {
        "minimum",
        "maximum",
        "items",
        "minItems",
        "maxItems",
        "required",
        "properties",
        "additionalProperties",
    }
    | {"anyOf", "allOf", "if", "then", "else"}
)


@functools.cache
def evidence_schema() -> Mapping[str, Any]:
    """The schema of an evidence file."""
    text = (
        files("understudy.bench.evidence")
        .joinpath("evidence_schema.json")
        .read_text(encoding="utf-8")
    )
    schema: Mapping[str, Any] = json.loads(text)
    return schema


def check(value: Any, schema: Mapping[str, Any], where: str) -> None:
    """Refuse a value that does not fit; `where` is how the error calls it."""
    found = problem(value, schema, schema)
    if found is not None:
        path, wrong = found
        raise UserError(f"{where}: {f'field {path}' if path else 'the whole'} {wrong}.")


def problem(value: Any, schema: Schema, root: Mapping[str, Any], path: str = "") -> Problem | None:
    """The first thing wrong, or None. `root` holds what `$ref` points to."""
    if isinstance(schema, bool):
        return None if schema else (path, "is not allowed here")
    if schema.keys() - _KNOWN:
        raise ValueError(f"unknown words in a schema: {sorted(schema.keys() - _KNOWN)}")
    for step in (_reference, _plain, _object, _list, _combined):
        found = step(value, schema, root, path)
        if found is not None:
            return found
    return None


def _reference(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], path: str
) -> Problem | None:
    if "$ref" not in schema:
        return None
    name = str(schema["$ref"]).removeprefix("#/$defs/")
    return problem(value, root["$defs"][name], root, path)


def _plain(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], path: str
) -> Problem | None:
    """What can be said of a value without looking inside it."""
    del root
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(_TYPES[name](value) for name in types):
        return path, f"must be {' or '.join(_TYPE_WORDS[t] for t in types)}, not {_shown(value)}"
    if "const" in schema and not _same(value, schema["const"]):
        return path, f"must be {_shown(schema['const'])}, not {_shown(value)}"
    if "enum" in schema and not any(_same(value, choice) for choice in schema["enum"]):
        return path, f"must be {' or '.join(map(str, schema['enum']))}, not {_shown(value)}"
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            return path, "must not be empty"
        if "pattern" in schema and not re.search(schema["pattern"], value):
            return path, f"must have the form {schema['pattern']}, not {_shown(value)}"
    return _range(value, schema, path) if _TYPES["number"](value) else None


def _range(value: Any, schema: Mapping[str, Any], path: str) -> Problem | None:
    if "minimum" in schema and not value >= schema["minimum"]:
        return path, f"must be at least {schema['minimum']}, not {_shown(value)}"
    if "maximum" in schema and not value <= schema["maximum"]:
        return path, f"must be at most {schema['maximum']}, not {_shown(value)}"
    return None


def _object(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], path: str
) -> Problem | None:
    if not isinstance(value, Mapping):
        return None
    for name in schema.get("required", ()):
        if name not in value:
            return _below(path, name), "is missing"
    properties, other = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, held in value.items():
        place = _below(path, name)
        if name not in properties and other is False:
            return place, "is unknown"
        found = problem(held, properties.get(name, other), root, place)
        if found is not None:
            return found
    return None


def _list(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], path: str
) -> Problem | None:
    if not isinstance(value, list):
        return None
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return path, f"has {len(value)} entries"
    for position, item in enumerate(value):
        found = problem(item, schema.get("items", True), root, f"{path}[{position}]")
        if found is not None:
            return found
    return None


def _combined(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], path: str
) -> Problem | None:
    """`if`, `allOf` and `anyOf`; where nothing of `anyOf` fits, the first says why."""
    if "if" in schema:
        branch = "else" if problem(value, schema["if"], root, path) else "then"
        found = problem(value, schema.get(branch, True), root, path)
        if found is not None:
            return found
    for part in schema.get("allOf", ()):
        found = problem(value, part, root, path)
        if found is not None:
            return found
    choices = [problem(value, part, root, path) for part in schema.get("anyOf", ())]
    return choices[0] if choices and all(choices) else None


def _same(value: Any, other: Any) -> bool:
    """Equal, where true is not 1."""
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else str(name)


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) < 60 else shown[:57] + "..."
