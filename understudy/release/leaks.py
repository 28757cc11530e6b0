"""Looking through a release's files for what only the owner may see."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from understudy.data.schema import Schema
from understudy.errors import UserError
from understudy.release import layout
from understudy.release.claim import Claim
from understudy.release.manifest import is_plain, listed_files
from understudy.release.parquet_tables import table_problems
from understudy.release.pickles import file_may_hold_pickle, text_holds_pickle
from understudy.release.strict_json import parse_object

_PATH = re.compile(
    r"(?<![\w/:.])(?:/[\w.-]+/[\w.-]+|~(?:[A-Za-z_][\w.-]*)?/\w|[A-Za-z]:[\\/]\w|file:/|\\\\\w)"
)
_PATH_ALONE = re.compile(r"/[\w.-]+")


def folder_refusals(folder: Path, claim: Claim) -> list[str]:
    """Why this release may not leave the owner's machine; empty if it may.

    Beside what no folder may hold: metadata inside images and columns beyond the schema.
    """
    reasons = content_refusals(folder, layout.RELEASE, claim.records.schema, claim.unit)
    tables = layout.RELEASE.tables(listed_files(folder))
    return reasons + table_problems(folder, tables, claim.records)


def content_refusals(
    folder: Path, expected: layout.Layout, schema: Schema, unit: str | None
) -> list[str]:
    """Why a folder of any kind may not leave its owner's machine, whatever its claim's kind.

    Looks for files that no folder of its kind has, pickles, columns that name people and rows,
    paths of the owner's machine, and owner-only keys in JSON.
    """
    names = listed_files(folder)
    columns = private_columns(schema, unit)
    reasons = expected.strangers(names)
    reasons += [f"the column {column!r} tells records or people apart." for column in columns]
    for name in names:
        found = file_refusals(folder / name, name, expected.documents)
        reasons += [f"{name} {reason}" for reason in found]
    return reasons


def private_columns(schema: Schema, unit: str | None) -> list[str]:
    """Attributes that tell one person or row from another: by their name, or as the unit."""
    identifying = {*_rules()["columns"], *([_plain_name(unit)] if unit else [])}
    return [name for name in schema.names if _plain_name(name) in identifying]


def owner_only_keys(value: Any) -> list[str]:
    """Keys below a JSON value that name what only the owner may see.

    Some names are refused whatever they hold; others, such as `loss`, only beside
    numbers, since `"loss": "hinge"` is a setting and `"loss": [0.7, 0.6]` a curve.
    """
    rules = _rules()
    return sorted(
        key
        for key, held in _items(value)
        if _plain_name(key) in rules["always"]
        or (_plain_name(key) in rules["when_numbers"] and _has_number(held))
    )


def machine_paths(value: Any) -> list[str]:
    """Strings below a JSON value that hold an absolute path."""
    found = {text for text in _texts(value) if _PATH.search(text) or _PATH_ALONE.fullmatch(text)}
    return sorted(found)


def file_refusals(path: Path, name: str, documents: Collection[str]) -> list[str]:
    """Why one file may not leave; `documents` are those that are read as JSON."""
    if not is_plain(path):
        return ["is not a plain file."]
    if file_may_hold_pickle(path):
        return ["may hold a pickle, which runs code when it is opened."]
    if name == layout.CARD:
        text = path.read_text(encoding="utf-8", errors="replace")
        return [f"holds a path of the owner's machine: {p[0]!r}." for p in _PATH.finditer(text)]
    if name in documents:
        return _json_refusals(path, lines=name == layout.LEDGER)
    return []


def _json_refusals(path: Path, lines: bool) -> list[str]:
    data = path.read_bytes()
    try:
        values = [parse_object(d, "it") for d in (data.splitlines() if lines else [data])]
    except UserError as error:
        return [f"cannot be looked through: {error}"]
    return [
        *(f"holds the owner-only key {key!r}." for key in owner_only_keys(values)),
        *(f"holds a path of the owner's machine: {text!r}." for text in machine_paths(values)),
        *("holds a pickle in base 64." for text in _texts(values) if text_holds_pickle(text)),
    ]


def _rules() -> Mapping[str, list[str]]:
    text = files("understudy.release").joinpath("owner_only.json").read_text(encoding="utf-8")
    rules: Mapping[str, list[str]] = json.loads(text)
    return rules


def _plain_name(key: str) -> str:
    return key.lower().replace("-", "_").replace(" ", "_")


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key below a JSON value, with what it holds."""
    if isinstance(value, Mapping):
        yield from value.items()
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _items(item)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for item in value.items() for part in item for text in _texts(part))
    elif isinstance(value, list):
        yield from (text for item in value for text in _texts(item))


def _has_number(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return any(_has_number(item) for item in value)
    return isinstance(value, int | float) and not isinstance(value, bool)
