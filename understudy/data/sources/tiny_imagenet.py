"""Tiny ImageNet in its standard layout.

`train/<wnid>/images/<wnid>_<k>.JPEG`, `val/images/val_<k>.JPEG`, `val/val_annotations.txt`,
`wnids.txt` and `words.txt`: in a folder, a zip or a tar. The small text files may also lie
beside an archive. Classes are in the order of their wnids and called by their first word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from understudy.data.entry import Entry
from understudy.data.sources.pictures import Listed, read_listed
from understudy.data.sources.raw import Column, RawPart
from understudy.data.sources.readers import Request
from understudy.data.sources.shelf import FolderShelf, Shelf, open_shelf, read_one
from understudy.errors import UserError

_LABEL = "label"
_ANNOTATIONS = ("val/val_annotations.txt", "val_annotations.txt")
_WORDS = ("words.txt", "words_200.txt")


def read_tiny_imagenet(request: Request) -> dict[str, RawPart]:
    """The train part, and the labelled validation part as the test part."""
    entry = request.entry
    shelf = open_shelf(request.folder, entry.archives, entry.roots, "train")
    if shelf is None:
        raise request.lacks("the folder train, and an archive of it")
    wnids = sorted(_text(request, shelf, ("wnids.txt",)).split())
    _check_wnids(entry, wnids, shelf)
    classes = _class_names(wnids, _text(request, shelf, _WORDS))
    listed: dict[str, Listed] = {}
    if "train" in entry.parts:
        listed["train"] = _train(entry, wnids, classes)
    if "test" in entry.parts:
        listed["test"] = _test(_text(request, shelf, _ANNOTATIONS), wnids, classes)
    return read_listed(request, shelf, listed, f"the lists of {shelf.place}")


def _check_wnids(entry: Entry, wnids: Sequence[str], shelf: Shelf) -> None:
    wanted = len(next(iter(entry.parts.values())).per_class)
    if len(set(wnids)) != wanted or len(wnids) != wanted:
        raise UserError(
            f"wnids.txt of {shelf.place} names {len(set(wnids))} classes, but {entry.name} has "
            f"{wanted}; {entry.where_from}."
        )


def _text(request: Request, shelf: Shelf, names: Sequence[str]) -> str:
    """A small text file, under any of its names: in the dataset's folder, else on the shelf."""
    beside = next((name for name in names if (request.folder / name).is_file()), None)
    source = shelf if beside is None else FolderShelf(request.folder)
    name = beside or names[0]
    try:
        return read_one(source, name).decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{source.title(name)} is not UTF-8 text; {request.entry.where_from}."
        ) from error


def _class_names(wnids: Sequence[str], words: str) -> tuple[str, ...]:
    """The first word of each class; the wnid too where two classes share it."""
    meaning = dict(line.split("\t", 1) for line in words.splitlines() if "\t" in line)
    names = [meaning.get(wnid, wnid).split(",")[0].strip() for wnid in wnids]
    often = Counter(names)
    return tuple(
        name if often[name] == 1 else f"{name} ({wnid})"
        for name, wnid in zip(names, wnids, strict=True)
    )


def _train(entry: Entry, wnids: Sequence[str], classes: tuple[str, ...]) -> Listed:
    per_class = entry.parts["train"].per_class
    names = [
        f"train/{wnid}/images/{wnid}_{k}.JPEG"
        for wnid, count in zip(wnids, per_class, strict=True)
        for k in range(count)
    ]
    codes = np.repeat(np.arange(len(wnids)), per_class)
    return Listed(names, {_LABEL: Column(codes, classes)})


def _test(annotations: str, wnids: Sequence[str], classes: tuple[str, ...]) -> Listed:
    code_of: Mapping[str, int] = {wnid: code for code, wnid in enumerate(wnids)}
    names: list[str] = []
    codes: list[int] = []
    for number, line in enumerate(annotations.splitlines(), start=1):
        cells = line.split("\t")
        if len(cells) < 2 or cells[1] not in code_of:
            raise UserError(
                f"val_annotations.txt line {number} names no class of wnids.txt; put the "
                "published file back."
            )
        names.append(f"val/images/{cells[0]}")
        codes.append(code_of[cells[1]])
    return Listed(names, {_LABEL: Column(np.array(codes, np.int64), classes)})
