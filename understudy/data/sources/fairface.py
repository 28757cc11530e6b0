"""FairFace: the authors' lists (file, age, gender, race, service_test) and their images.

The images lie in `train/` and `val/`, as the authors' archive unpacks, or in an archive of
them, at any size. The authors publish no test part: `val` is ours. `service_test` says which
images they measured commercial services with; it tells nothing of a face and is left out. Classes
are called as UTKFace's are, so that what learnt from one can be tested on the other.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from understudy.data.entry import Entry
from understudy.data.images import read_file
from understudy.data.sources.pictures import Listed, read_listed
from understudy.data.sources.raw import Column, RawPart
from understudy.data.sources.readers import Request
from understudy.data.sources.shelf import Shelf, open_shelf
from understudy.errors import UserError

_PUBLISHED: Mapping[str, str] = {"train": "train", "test": "val"}
_HEADER = ["file", "age", "gender", "race", "service_test"]
_OLDEST = ("more than 70", "70+")


def read_fairface(request: Request) -> dict[str, RawPart]:
    """Both published parts; whole, or an excerpt of a known size."""
    shelf, lists = _locate(request)
    listed = {part: _listed(request.entry, path, _PUBLISHED[part]) for part, path in lists.items()}
    said_by = " and ".join(str(path) for path in lists.values())
    return read_listed(request, shelf, listed, said_by, any_size=True)


def _locate(request: Request) -> tuple[Shelf, dict[str, Path]]:
    """The images, and the list of each part, which may lie beside them."""
    entry, folder = request.entry, request.folder
    shelf = open_shelf(folder, entry.archives, entry.roots, "train")
    missing = [] if shelf is not None else ["the folders train and val (or an archive of them)"]
    lists: dict[str, Path] = {}
    for part, published in _PUBLISHED.items():
        name = f"fairface_label_{published}.csv"
        places = (folder / root / name for root in entry.roots)
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            missing.append(name)
        else:
            lists[part] = found
    if shelf is None or missing:
        raise request.lacks(" and ".join(missing))
    return shelf, lists


def _listed(entry: Entry, path: Path, published: str) -> Listed:
    columns = {str(entry.label): entry.classes, **entry.others}
    codes: dict[str, list[int]] = {name: [] for name in columns}
    known = {name: {word: i for i, word in enumerate(words)} for name, words in columns.items()}
    names: dict[str, None] = {}
    for line, row in _rows(entry, path):
        _check_name(path, line, row["file"], published, names)
        names[row["file"]] = None
        for name in columns:
            code = known[name].get(_our_word(row[name]))
            if code is None:
                raise UserError(
                    f"{path} line {line} has the {name} {row[name]!r}, which is none of FairFace's "
                    f"(a spreadsheet may have changed it); {entry.where_from}."
                )
            codes[name].append(code)
    return Listed(
        list(names),
        {name: Column(np.array(codes[name], np.int64), own) for name, own in columns.items()},
    )


def _rows(entry: Entry, path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a list, each with the number of its line."""
    text = read_file(path).decode("utf-8-sig", "replace")
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = next(reader, [])
        if header != _HEADER:
            raise UserError(
                f"{path} begins with {','.join(header)[:60]!r}, not with the columns "
                f"{','.join(_HEADER)}; {entry.where_from}."
            )
        for row in reader:
            if len(row) != len(_HEADER):
                raise UserError(
                    f"{path} line {reader.line_num} must hold {len(_HEADER)} values, not "
                    f"{len(row)}; replace the file with a whole copy."
                )
            yield reader.line_num, dict(zip(_HEADER, row, strict=True))
    except csv.Error as error:
        raise UserError(f"{path} is no list of values ({error}); {entry.where_from}.") from error


def _check_name(
    path: Path, line: int, name: str, published: str, before: Mapping[str, None]
) -> None:
    """The list is somebody else's file: it must not lead out of the folder of its part."""
    if not re.fullmatch(rf"{published}/\d+\.jpg", name):
        raise UserError(
            f"{path} line {line} names {name[:60]!r}; a file of this part is called "
            f"{published}/NUMBER.jpg."
        )
    if name in before:
        raise UserError(f"{path} line {line} lists {name} a second time; keep one line of it.")


def _our_word(word: str) -> str:
    """A class of the authors' as the catalog calls it.

    >>> _our_word("Latino_Hispanic"), _our_word("more than 70")
    ('latino hispanic', '70+')
    """
    theirs, ours = _OLDEST
    return ours if word == theirs else word.lower().replace("_", " ")
