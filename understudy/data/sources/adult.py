"""UCI Adult as a table of 102 columns of 0 and 1, with gender and income as attributes.

What becomes of a row depends on that row and on public constants (`adult.yaml`) alone, so
a row means the same in any company. Nothing is measured while loading.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import yaml

from understudy.data.images import read_file
from understudy.data.published import require_published
from understudy.data.records import Array
from understudy.data.sources.raw import Column, RawPart
from understudy.data.sources.readers import Request
from understudy.errors import UserError

_FILES = {"train": "adult.data", "test": "adult.test"}
_UNKNOWN = "?"
_GENDER, _INCOME = "sex", "income"


@dataclass(frozen=True)
class Columns:
    """fields: the names of a row's cells. above: numbers with their thresholds.
    one_of: words with the values that have a column each.
    """

    fields: tuple[str, ...]
    above: Mapping[str, float]
    one_of: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """What each column says when it is 1, in order.

        >>> adult_columns().names[0], len(adult_columns().names)
        ('age > 37', 102)
        """
        numbers = [f"{name} > {limit:g}" for name, limit in self.above.items()]
        words = [f"{name} = {value}" for name, values in self.one_of.items() for value in values]
        return (*numbers, *words)


def adult_columns() -> Columns:
    """The columns of the table."""
    text = files("understudy.data.sources").joinpath("adult.yaml").read_text(encoding="utf-8")
    facts = yaml.safe_load(text)
    one_of = {name: tuple(map(str, values)) for name, values in facts["one_of"].items()}
    return Columns(tuple(facts["fields"]), facts["above"], one_of)


def read_adult(request: Request) -> dict[str, RawPart]:
    """The published parts without the rows that have an unknown value."""
    missing = [name for name in _FILES.values() if not (request.folder / name).is_file()]
    if missing:
        raise request.lacks(" and ".join(missing))
    columns = adult_columns()
    parts: dict[str, RawPart] = {}
    for part, name in _FILES.items():
        path = request.folder / name
        numbered = _rows(path, columns)
        rows = [row for _, row in numbered]
        parts[part] = RawPart(
            _features([_checked(row, number, path, columns) for number, row in numbered], columns),
            [f"{name} line {number}" for number, _ in numbered],
            _attributes(request, rows, columns),
        )
    require_published(
        request.entry, {part: raw.columns for part, raw in parts.items()}, str(request.folder)
    )
    return parts


def _rows(path: Path, columns: Columns) -> list[tuple[int, list[str]]]:
    """Rows whose every value is known, each with its line; the test file starts with a remark."""
    text = read_file(path).decode("ascii", "replace")
    found: list[tuple[int, list[str]]] = []
    for number, cells in enumerate(csv.reader(text.splitlines()), start=1):
        row = [cell.strip() for cell in cells]
        if not row or row[0].startswith("|") or _UNKNOWN in row:
            continue
        if len(row) != len(columns.fields):
            raise UserError(
                f"{path} line {number} has {len(row)} values, not {len(columns.fields)}; replace "
                "the file with a whole copy."
            )
        found.append((number, row))
    return found


def _checked(row: Sequence[str], number: int, path: Path, columns: Columns) -> dict[str, str]:
    """A row by the names of its fields; values that Adult does not have are refused."""
    cells = dict(zip(columns.fields, row, strict=True))
    for name, values in columns.one_of.items():
        if cells[name] not in values:
            raise UserError(f"{path} line {number} has {cells[name]!r} for {name!r}, unlike Adult.")
    for name in columns.above:
        if not cells[name].isdecimal():
            raise UserError(f"{path} line {number} has no number for {name!r}; it is not Adult.")
    return cells


def _features(rows: Sequence[Mapping[str, str]], columns: Columns) -> Array:
    table = np.zeros((len(rows), len(columns.names)), np.float32)
    at = 0
    for name, limit in columns.above.items():
        table[:, at] = [int(row[name]) > limit for row in rows]
        at += 1
    for name, values in columns.one_of.items():
        place = {value: at + i for i, value in enumerate(values)}
        table[np.arange(len(rows)), [place[row[name]] for row in rows]] = 1.0
        at += len(values)
    return table


def _attributes(
    request: Request, rows: Sequence[Sequence[str]], columns: Columns
) -> dict[str, Column]:
    genders, incomes = request.entry.others["gender"], request.entry.classes
    gender, income = columns.fields.index(_GENDER), columns.fields.index(_INCOME)
    return {
        "income": Column(_coded([row[income].rstrip(".") for row in rows], incomes), incomes),
        "gender": Column(_coded([row[gender].lower() for row in rows], genders), genders),
    }


def _coded(values: Sequence[str], classes: Sequence[str]) -> Array:
    """Codes into `classes`; -1, which is refused afterwards, for what is not among them."""
    code_of = {name: code for code, name in enumerate(classes)}
    return np.array([code_of.get(value, -1) for value in values], np.int64)
