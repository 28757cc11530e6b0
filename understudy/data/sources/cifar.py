"""CIFAR-10 and CIFAR-100 in their binary version: label bytes, then 3,072 bytes of colour.

CIFAR-100 has two label bytes, the coarse label first. The "python version" of either set is
a pickle, which can run any program when it is opened; it is never opened here.

Copies of CIFAR-10 exist whose images lie in another order than the authors' (they were packed
again from lossless pictures), so beside the archive's md5 the mean and deviation of all training
pixels are held against the well-known ones.
"""

from __future__ import annotations

import math

import numpy as np

from understudy.data.entry import Entry, PartFacts
from understudy.data.published import require_moments, require_published
from understudy.data.records import Array
from understudy.data.sources.raw import Column, RawPart
from understudy.data.sources.readers import Request
from understudy.data.sources.shelf import Shelf, open_shelf
from understudy.errors import UserError


def read_cifar(request: Request) -> dict[str, RawPart]:
    """Every part, from the archive or from its `.bin` files."""
    entry = request.entry
    first = next(iter(entry.parts.values())).files[0]
    shelf = open_shelf(request.folder, entry.archives, entry.roots, first)
    if shelf is None:
        _refuse_pickles(request)
        raise request.lacks(entry.archives[0])
    batches = _batches(entry, shelf, request)
    parts = {
        part: _part(entry, shelf, known, [batches[name] for name in known.files])
        for part, known in entry.parts.items()
    }
    require_published(entry, {p: raw.columns for p, raw in parts.items()}, str(shelf.place))
    require_moments(entry, {p: raw.pixels for p, raw in parts.items()}, str(shelf.place))
    return parts


def _refuse_pickles(request: Request) -> None:
    pickled = next(request.folder.glob("cifar-*-py*"), None)
    if pickled is not None:
        raise UserError(
            f"{pickled} is the python version, a pickle, which is never opened here; get the "
            f"binary version, {request.entry.archives[0]}, from {request.entry.homepage} and put "
            "it beside."
        )


def _batches(entry: Entry, shelf: Shelf, request: Request) -> dict[str, Array]:
    """The records of each file, as rows of bytes."""
    width = len(_label_columns(entry)) + math.prod(entry.shape)
    rows = {
        name: known.count // len(known.files)
        for known in entry.parts.values()
        for name in known.files
    }
    names = list(rows)
    found: dict[str, Array] = {}
    with request.reading.progress.task(f"reading {shelf.place.name}", len(names)) as task:
        for i, data in shelf.read(names):
            name = names[i]
            if len(data) != rows[name] * width:
                raise UserError(
                    f"{shelf.title(name)} has {len(data):,} bytes, not the {rows[name] * width:,} "
                    f"of {rows[name]:,} images of {entry.name}; {entry.where_from}."
                )
            found[name] = np.frombuffer(data, np.uint8).reshape(rows[name], width)
            task.advance()
    return found


def _label_columns(entry: Entry) -> dict[str, tuple[str, ...]]:
    """The label bytes in their order: coarse before fine."""
    assert entry.label is not None
    return {**entry.others, entry.label: entry.classes}


def _part(entry: Entry, shelf: Shelf, known: PartFacts, batches: list[Array]) -> RawPart:
    labels = _label_columns(entry)
    rows = np.concatenate(batches)
    pixels = np.ascontiguousarray(rows[:, len(labels) :]).reshape(-1, *entry.shape)
    columns = {
        name: Column(rows[:, i].astype(np.int64), classes)
        for i, (name, classes) in enumerate(labels.items())
    }
    names = [
        f"{shelf.title(file)} image {i}"
        for file, batch in zip(known.files, batches, strict=True)
        for i in range(len(batch))
    ]
    return RawPart(pixels, names, columns)
