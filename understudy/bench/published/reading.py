"""Reading the data files of published figures; what is wrong is refused by file and line."""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any, get_args

import yaml

from understudy.bench.published.figure import (
    Figure,
    PublishedProtocol,
    Sound,
    Soundness,
    Source,
)
from understudy.errors import UserError, did_you_mean

COLUMNS = (
    "table",
    "method",
    "dataset",
    "epsilon",
    "delta",
    "metric",
    "variant",
    "value",
    "spread",
    "unit",
    "protocol",
    "note",
)
_MAY_BE_EMPTY = frozenset({"epsilon", "delta", "variant", "spread", "note"})
_IDENTITY = ("table", "method", "dataset", "epsilon", "metric", "variant", "protocol", "note")
_KEYS = ("citation", "address", "tables", "protocols", "soundness", "metrics")
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")


def published(source: str | None = None) -> tuple[Figure, ...]:
    """Every published figure, or those of one source, in the order of their files.

    >>> {figure.source for figure in published("deco-bench")}
    {'deco-bench'}
    """
    known = _everything()
    if source is None:
        return tuple(figure for figures in known.values() for figure in figures)
    if source not in known:
        raise UserError(f"no published source {source!r}; {did_you_mean(source, known)}")
    return known[source]


@functools.cache
def sources() -> Mapping[str, Source]:
    """Every source by name: citation, tables, protocols and soundness in words."""
    return MappingProxyType(read_sources(_shipped()))


@functools.cache
def _everything() -> Mapping[str, tuple[Figure, ...]]:
    known = sources()
    return {name: read_figures(_shipped(), known, name) for name in known}


def _shipped() -> Traversable:
    return files("understudy.bench.published")


def read_sources(folder: Traversable) -> dict[str, Source]:
    """The sources described in a folder; a CSV file without a description is refused."""
    names = sorted(file.name for file in folder.iterdir())
    found = {
        name: _source(name, folder.joinpath(file))
        for file in names
        if (name := file.removesuffix(".yaml")) != file
    }
    for file in names:
        if file.endswith(".csv") and _owner(file, found) is None:
            raise UserError(f"{file} belongs to no source; write <source>.yaml beside it.")
    return found


def read_figures(folder: Traversable, known: Mapping[str, Source], name: str) -> tuple[Figure, ...]:
    """The figures of one source, from all of its CSV files."""
    tables = sorted(file.name for file in folder.iterdir() if _owner(file.name, known) == name)
    if not tables:
        raise UserError(f"{name}.yaml has no figures; write {name}.csv beside it.")
    seen: dict[tuple[str, ...], str] = {}
    figures: list[Figure] = []
    for table in tables:
        for place, row in _rows(folder.joinpath(table)):
            identity = tuple(row[column] for column in _IDENTITY)
            if identity in seen:
                raise UserError(f"{place} repeats {seen[identity]}; tell them apart in `note`.")
            seen[identity] = place
            figures.append(_figure(known[name], place, row))
    return tuple(figures)


def _owner(file: str, names: Mapping[str, Source]) -> str | None:
    """The source with the longest name that a CSV file's name starts with."""
    stem = file.removesuffix(".csv")
    if stem == file:
        return None
    own = [name for name in names if stem == name or stem.startswith(f"{name}-")]
    return max(own, key=len, default=None)


def _rows(file: Traversable) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row by column, with its place in words."""
    reader = csv.reader(file.read_text(encoding="utf-8").splitlines(), strict=True)
    try:
        header, *lines = [(reader.line_num, fields) for fields in reader] or [(1, [])]
    except csv.Error as error:
        raise UserError(f"{file.name} line {reader.line_num}: {error}.") from error
    _check_header(file.name, header[1])
    for number, fields in lines:
        yield f"{file.name} line {number}", _row(f"{file.name} line {number}", fields)


def _check_header(file: str, header: list[str]) -> None:
    for column in header:
        if column not in COLUMNS:
            raise UserError(f"{file} line 1: no column {column!r}; {did_you_mean(column, COLUMNS)}")
    if tuple(header) != COLUMNS:
        raise UserError(f"{file} line 1: the columns are {','.join(COLUMNS)}.")


def _row(place: str, fields: list[str]) -> dict[str, str]:
    if len(fields) != len(COLUMNS):
        raise UserError(f"{place} has {len(fields)} fields, not {len(COLUMNS)}.")
    row = dict(zip(COLUMNS, fields, strict=True))
    for column, field in row.items():
        if field != field.strip():
            raise UserError(f"{place}: {column} has blanks around {field.strip()!r}.")
        if not field and column not in _MAY_BE_EMPTY:
            raise UserError(f"{place}: {column} is empty.")
    return row


def _figure(source: Source, place: str, row: Mapping[str, str]) -> Figure:
    _known(place, "table", row["table"], source.tables)
    _known(place, "protocol", row["protocol"], source.protocols)
    _known(place, "soundness entry for method", row["method"], source.soundness)
    judged = source.soundness[row["method"]]
    value = _number(place, "value", row["value"])
    assert value is not None
    return Figure(
        source=source.name,
        table=row["table"],
        method=row["method"],
        dataset=row["dataset"],
        epsilon=_epsilon(place, row["epsilon"]),
        delta=_number(place, "delta", row["delta"]),
        metric=row["metric"],
        variant=row["variant"],
        value=value,
        spread=_number(place, "spread", row["spread"]),
        unit=row["unit"],
        protocol=row["protocol"],
        note=row["note"],
        sound=judged.sound,
        reason=judged.reason,
    )


def _known(place: str, kind: str, name: str, known: Mapping[str, object]) -> None:
    if name not in known:
        raise UserError(f"{place}: no {kind} {name!r}; {did_you_mean(name, known)}")


def _number(place: str, column: str, field: str) -> float | None:
    if not field:
        return None
    if not _NUMBER.fullmatch(field):
        raise UserError(f"{place}: {column} is {field!r}; write a plain number such as 86.24.")
    return float(field)


def _epsilon(place: str, field: str) -> float | None:
    if field == "inf":
        return float("inf")
    epsilon = _number(place, "epsilon", field)
    if epsilon is not None and epsilon <= 0:
        raise UserError(f"{place}: epsilon is {field!r}; it is more than 0, inf, or left empty.")
    return epsilon


def _source(name: str, file: Traversable) -> Source:
    content = _read_yaml(file)
    for key in content:
        if key not in _KEYS:
            raise UserError(f"{file.name}: no key {key!r}; {did_you_mean(key, _KEYS)}")
    for key in _KEYS[:-1]:
        if not content.get(key):
            raise UserError(f"{file.name} does not say `{key}`.")
    protocols = _mapping(file.name, content, "protocols")
    soundness = _mapping(file.name, content, "soundness")
    return Source(
        name=name,
        citation=_words(file.name, "citation", content["citation"]),
        address=_words(file.name, "address", content["address"]),
        tables=_all_words(file.name, content, "tables"),
        protocols={k: _protocol(f"{file.name}: {k}", v) for k, v in protocols.items()},
        soundness={k: _soundness(f"{file.name}: {k}", v) for k, v in soundness.items()},
        metrics=_all_words(file.name, content, "metrics"),
    )


def _read_yaml(file: Traversable) -> dict[str, Any]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{file.name} is not readable YAML: {error}.") from error
    if not isinstance(content, dict):
        raise UserError(f"{file.name} must be a mapping with {', '.join(_KEYS)}.")
    return content


def _mapping(file: str, content: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = content.get(key) or {}
    if not isinstance(found, dict):
        raise UserError(f"{file}: `{key}` is a mapping by name.")
    return {str(name): value for name, value in found.items()}


def _all_words(file: str, content: Mapping[str, Any], key: str) -> dict[str, str]:
    return {
        name: _words(file, f"{key}: {name}", words)
        for name, words in _mapping(file, content, key).items()
    }


def _words(file: str, key: str, found: object) -> str:
    if not isinstance(found, str) or not found.strip():
        raise UserError(f"{file}: `{key}` is told in words.")
    return found.strip()


def _fields(place: str, found: object, wanted: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(found, dict) or set(found) != set(wanted):
        raise UserError(f"{place} has `{'` and `'.join(wanted)}`, and nothing else.")
    return found


def _protocol(place: str, found: object) -> PublishedProtocol:
    fields = _fields(place, found, ("words", "ours"))
    ours = fields["ours"]
    if ours is not None and not isinstance(ours, str):
        raise UserError(f"{place}: `ours` names an evaluation protocol or is null.")
    return PublishedProtocol(_words(place, "words", fields["words"]), ours)


def _soundness(place: str, found: object) -> Soundness:
    fields = _fields(place, found, ("sound", "reason"))
    sound = fields["sound"]
    if isinstance(sound, bool):  # YAML reads an unquoted yes or no as a truth value
        sound = "yes" if sound else "no"
    if sound not in get_args(Sound):
        raise UserError(f"{place}: `sound` is {sound!r}, not {', '.join(get_args(Sound))}.")
    return Soundness(sound, _words(place, "reason", fields["reason"]))
