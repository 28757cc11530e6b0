"""Camelyon17 as WILDS publishes it: 96x96 patches, with a `metadata.csv` that lists them.

Each patch says its patient, slide, hospital ("center", 0 to 4) and whether its middle
shows tumour. WILDS sets hospitals apart: 1 is its out-of-distribution validation part, 2
its test part; the rest is divided by the column `split`. We follow DPImageBench, which
tests on hospital 1, and keep WILDS's own test part under the name `wilds-test`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from understudy.data.sources.pictures import Listed, read_listed
from understudy.data.sources.raw import Column, RawPart
from understudy.data.sources.readers import Request
from understudy.data.sources.shelf import open_shelf, read_one
from understudy.errors import UserError

_METADATA = "metadata.csv"
_COLUMNS = ("patient", "node", "x_coord", "y_coord", "tumor", "center", "split")
_WHOLE_NUMBER = re.compile(r"\d+")
_PART_OF_HOSPITAL = {1: "test", 2: "wilds-test"}
_PART_OF_SPLIT = {0: "train", 1: "validation"}


@dataclass(frozen=True)
class _Rows:
    """What the rows of one part say, column by column."""

    names: list[str] = field(default_factory=list)
    tumour: list[int] = field(default_factory=list)
    hospital: list[int] = field(default_factory=list)
    patient: list[str] = field(default_factory=list)


def read_camelyon(request: Request) -> dict[str, RawPart]:
    entry = request.entry
    shelf = open_shelf(request.folder, entry.archives, entry.roots, _METADATA)
    if shelf is None:
        raise request.lacks(f"{_METADATA} and the folder patches")
    title = shelf.title(_METADATA)
    rows = {part: _Rows() for part in ("train", "validation", "test", "wilds-test")}
    for patient, node, x, y, tumour, hospital, split in _cells(read_one(shelf, _METADATA), title):
        part = rows[_PART_OF_HOSPITAL.get(int(hospital), _PART_OF_SPLIT.get(int(split), "train"))]
        slide = f"patient_{patient}_node_{node}"
        part.names.append(f"patches/{slide}/patch_{slide}_x_{x}_y_{y}.png")
        part.tumour.append(int(tumour))
        part.hospital.append(int(hospital))
        part.patient.append(patient)
    listed = {part: Listed(found.names, _columns(request, found)) for part, found in rows.items()}
    return read_listed(request, shelf, listed, title)


def _columns(request: Request, rows: _Rows) -> dict[str, Column]:
    entry = request.entry
    columns = {
        "tumour": Column(np.array(rows.tumour, np.int64), entry.classes),
        "hospital": Column(np.array(rows.hospital, np.int64), entry.others["hospital"]),
    }
    if request.unit is not None:
        columns[request.unit] = Column(rows.patient)
    return columns


def _cells(data: bytes, title: str) -> Iterator[Sequence[str]]:
    """The cells of each row that we use, all of them whole numbers."""
    reader = csv.reader(io.StringIO(data.decode("utf-8", "replace"), newline=""), strict=True)
    try:
        header = next(reader, [])
        missing = [name for name in _COLUMNS if name not in header]
        if missing:
            raise UserError(
                f"{title} has no column {missing[0]!r}; it must be the metadata.csv of WILDS."
            )
        at = [header.index(name) for name in _COLUMNS]
        for row in reader:
            cells = [row[i] for i in at] if len(row) == len(header) else []
            if not cells or not all(_WHOLE_NUMBER.fullmatch(cell) for cell in cells):
                raise UserError(
                    f"{title} line {reader.line_num} does not give whole numbers for "
                    f"{', '.join(_COLUMNS)}; put the published file back."
                )
            yield cells
    except csv.Error as error:
        raise UserError(
            f"{title} line {reader.line_num} is not valid CSV ({error}); put the published file "
            "back."
        ) from error
