"""CelebA, aligned and cropped: `img_align_celeba` with its lists of attributes and parts.

The pictures are 178x218; they are cropped to their central square of 178 and reduced, as
DPImageBench does. The lists may lie in `Anno/` and `Eval/`, as on the authors' drive.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from understudy.data.images import read_file
from understudy.data.records import Array
from understudy.data.sources.pictures import Listed, read_listed
from understudy.data.sources.raw import Column, RawPart
from understudy.data.sources.readers import Request
from understudy.data.sources.shelf import Shelf, open_shelf
from understudy.errors import UserError

_ATTRIBUTES = "list_attr_celeba.txt"
_PARTITION = "list_eval_partition.txt"
_IDENTITIES = "identity_CelebA.txt"
_IMAGES = "img_align_celeba"

_PARTS = ("train", "validation", "test")
_NO_YES = ("no", "yes")
_CODES = {"-1": 0, "1": 1}


def read_celeba(request: Request) -> dict[str, RawPart]:
    """The published parts with all forty attributes, and identities where units are asked for."""
    shelf, lists = _locate(request)
    names, header, values = _attributes(request, lists[_ATTRIBUTES])
    part_codes = _one_number_each(request, lists[_PARTITION], names)
    people = None
    if request.unit is not None:
        people = _one_number_each(request, lists[_IDENTITIES], names)
    listed: dict[str, Listed] = {}
    for code, part in enumerate(_PARTS):
        chosen = np.flatnonzero(part_codes == code)
        columns = {name: Column(values[chosen, i], _NO_YES) for i, name in enumerate(header)}
        if people is not None and request.unit is not None:
            columns[request.unit] = Column([str(person) for person in people[chosen].tolist()])
        listed[part] = Listed([f"{_IMAGES}/{names[i]}" for i in chosen.tolist()], columns)
    return read_listed(request, shelf, listed, str(lists[_PARTITION]))


def _locate(request: Request) -> tuple[Shelf, dict[str, Path]]:
    """The pictures, and the lists that this request needs."""
    entry, folder = request.entry, request.folder
    shelf = open_shelf(folder, entry.archives, entry.roots, _IMAGES)
    missing = [] if shelf is not None else [f"{_IMAGES}.zip"]
    lists: dict[str, Path] = {}
    for name in (_ATTRIBUTES, _PARTITION, *([_IDENTITIES] if request.unit else [])):
        places = (folder / name, folder / "Anno" / name, folder / "Eval" / name)
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            missing.append(name)
        else:
            lists[name] = found
    if shelf is None or missing:
        raise request.lacks(" and ".join(missing))
    return shelf, lists


def _attributes(request: Request, path: Path) -> tuple[list[str], list[str], Array]:
    """File names, attribute names, and 0 or 1 for each; the file itself says -1 or 1."""
    count, header_line, *rows = [*_lines(path), "", ""]
    rows, header = [row for row in rows if row], header_line.split()
    if set(header) != {request.entry.label, *request.entry.others}:
        raise UserError(
            f"{path} does not name the {1 + len(request.entry.others)} attributes of "
            f"{request.entry.name} in its second line; {request.entry.where_from}."
        )
    if count.strip() != str(len(rows)):
        raise UserError(
            f"{path} announces {count.strip()[:20]} images and lists {len(rows):,}; replace it "
            "with a whole copy."
        )
    names: list[str] = []
    values = np.empty((len(rows), len(header)), np.int8)
    for i, row in enumerate(rows):
        name, *cells = row.split()
        codes = [_CODES.get(cell, -1) for cell in cells]
        if len(codes) != len(header) or -1 in codes:
            raise UserError(
                f"{path} line {i + 3} must hold {len(header)} values of -1 or 1; replace the file "
                "with a whole copy."
            )
        names.append(name)
        values[i] = codes
    return names, header, values


def _one_number_each(request: Request, path: Path, names: list[str]) -> Array:
    """The number that a list gives to each of these images; it must list the same ones."""
    pairs = [line.split() for line in _lines(path) if line]
    if any(len(pair) != 2 or not pair[1].isdecimal() for pair in pairs):
        raise UserError(f"{path} must hold a file name and a number in every line.")
    numbers = {name: int(number) for name, number in pairs}
    missing = next((name for name in names if name not in numbers), None)
    if missing is not None or len(pairs) != len(names):
        what = f"no line for {missing}" if missing else f"{len(pairs):,} lines"
        raise UserError(
            f"{path} has {what}, but {_ATTRIBUTES} lists {len(names):,} images; "
            f"{request.entry.where_from}."
        )
    return np.array([numbers[name] for name in names], np.int64)


def _lines(path: Path) -> list[str]:
    return read_file(path).decode("ascii", "replace").splitlines()
