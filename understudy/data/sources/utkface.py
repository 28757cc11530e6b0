"""UTKFace, aligned: `<age>_<gender>_<race>_<time>.jpg.chip.jpg` in a folder or an archive.

Three published names lack a field and are left out. 390 files are byte for byte copies of
another; the first by name is kept, because a face in two parts would spoil every figure of
memory. There are no published parts: ours depend on a file's name alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from understudy.data.entry import Entry
from understudy.data.sources.pictures import Listed, read_listed
from understudy.data.sources.raw import Column, RawPart
from understudy.data.sources.readers import Request
from understudy.data.sources.shelf import Shelf, open_shelf
from understudy.errors import UserError

AGE_GROUPS = ((0, 2), (3, 9), (10, 19), (20, 29), (30, 39), (40, 49), (50, 59), (60, 69))
"""The groups of FairFace; the last one is open above."""

_NAME = re.compile(r"(\d{1,3})_([01])_([0-4])_[^/]*\.jpg")
_SALT = "utkface 1"
_TEST_SHARE = (3, 20)
_ROOT = "UTKFace"


def read_utkface(request: Request) -> dict[str, RawPart]:
    entry = request.entry
    shelf = open_shelf(request.folder, entry.archives, (_ROOT,), "")
    if shelf is None:
        raise request.lacks(f"the folder {_ROOT} and {entry.archives[0]}")
    names = [name for name in sorted(shelf.names()) if _NAME.fullmatch(name)]
    if not names:
        raise UserError(
            f"{shelf.place} holds no file named <age>_<gender>_<race>_<time>.jpg; "
            f"{entry.where_from}."
        )
    kept = _without_copies(shelf, names, request)
    listed = {
        part: _listed([name for name in kept if part_of(name) == part], entry)
        for part in entry.parts
    }
    return read_listed(request, shelf, listed, str(shelf.place), any_size=True)


def part_of(name: str) -> str:
    """The part of an image, by a public hash of its file name."""
    digest = hashlib.sha256(f"{_SALT}: {name}".encode()).digest()
    taken, of = _TEST_SHARE
    return "test" if int.from_bytes(digest[:8], "big") * of < taken << 64 else "train"


def age_group(age: int) -> int:
    """The code of an age's group.

    >>> age_group(2), age_group(3), age_group(69), age_group(116)
    (0, 1, 7, 8)
    """
    return sum(age > last for _, last in AGE_GROUPS)


def _without_copies(shelf: Shelf, names: Sequence[str], request: Request) -> list[str]:
    """The names without those of files that are byte for byte an earlier one."""
    digests = [b""] * len(names)
    what = f"comparing files of {shelf.place.name}"
    with request.reading.progress.task(what, len(names)) as task:
        for i, data in shelf.read(names):
            digests[i] = hashlib.sha256(data).digest()
            task.advance()
    first: dict[bytes, str] = {}
    for name, digest in zip(names, digests, strict=True):
        first.setdefault(digest, name)
    return sorted(first.values())


def _listed(names: list[str], entry: Entry) -> Listed:
    found = [_NAME.fullmatch(name) for name in names]
    cells = np.array([[int(m[i]) for i in (1, 2, 3)] for m in found if m], np.int64).reshape(-1, 3)
    ages = np.array([age_group(age) for age in cells[:, 0].tolist()], np.int64)
    columns = {
        "gender": Column(cells[:, 1], entry.classes),
        "age": Column(ages, entry.others["age"]),
        "race": Column(cells[:, 2], entry.others["race"]),
    }
    return Listed(names, columns)
