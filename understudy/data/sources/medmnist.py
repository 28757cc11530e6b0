"""The 2D sets of MedMNIST: one npz file with `train_images`, `train_labels` and so on.

The arrays are read here rather than by `numpy.load`: a header may announce more than
memory holds, or objects, which are pickles. Only plain arrays of the published shape pass.
"""

from __future__ import annotations

import io

import numpy as np
from numpy.lib import format as npy

from understudy.data.entry import Entry
from understudy.data.published import require_published
from understudy.data.records import Array
from understudy.data.sources.raw import Column, RawPart
from understudy.data.sources.readers import Request
from understudy.data.sources.shelf import Shelf, ZipShelf, read_one
from understudy.errors import UserError

_KEYS = {"train": "train", "validation": "val", "test": "test"}


def read_medmnist(request: Request) -> dict[str, RawPart]:
    """The published parts; the validation part stays a part of its own."""
    entry, path = request.entry, request.folder / f"{request.entry.name}.npz"
    if not path.is_file():
        raise request.lacks(path.name)
    shelf, parts = ZipShelf(path), dict[str, RawPart]()
    with request.reading.progress.task(f"reading {path.name}", len(entry.parts)) as task:
        for part in entry.parts:
            parts[part] = _part(entry, shelf, part)
            task.advance()
    require_published(entry, {p: raw.columns for p, raw in parts.items()}, str(path))
    return parts


def _part(entry: Entry, shelf: Shelf, part: str) -> RawPart:
    channels, height, width = entry.shape
    count, key = entry.parts[part].count, _KEYS[part]
    own = {} if entry.label is None else {entry.label: entry.classes}
    attributes = {**own, **entry.others}
    form = (count, height, width) if channels == 1 else (count, height, width, channels)
    images = _array(entry, shelf, f"{key}_images", form, np.dtype(np.uint8))
    labels = _array(entry, shelf, f"{key}_labels", (count, len(attributes)), None)
    pixels = images[:, None] if channels == 1 else images.transpose(0, 3, 1, 2)
    columns = {
        name: Column(labels[:, i].astype(np.int64), classes)
        for i, (name, classes) in enumerate(attributes.items())
    }
    names = [f"{shelf.place} {key} image {i}" for i in range(count)]
    # A copy: what was read is not to be written to, and colour lies the other way round.
    return RawPart(np.array(pixels, order="C"), names, columns)


def _array(
    entry: Entry, shelf: Shelf, key: str, shape: tuple[int, ...], kind: np.dtype[np.uint8] | None
) -> Array:
    """One array of the file, which must have this shape; labels may be any whole numbers."""
    title, data = shelf.title(key), read_one(shelf, f"{key}.npy")
    found, by_column, dtype, start = _header(data, title)
    if dtype.kind not in "ui" or (kind is not None and dtype != kind) or by_column:
        raise UserError(f"{title} holds values of type {dtype}; {entry.where_from}.")
    if found != shape:
        raise UserError(
            f"{title} has the shape {found}, but that of {entry.name} is {shape}; "
            f"{entry.where_from}."
        )
    size = int(np.prod(shape)) * dtype.itemsize
    if len(data) - start != size:
        raise UserError(
            f"{title} has {len(data) - start:,} bytes after its header, not the {size:,} that it "
            "announces; replace the file with a whole copy."
        )
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def _header(data: bytes, title: str) -> tuple[tuple[int, ...], bool, np.dtype[np.generic], int]:
    """Shape, whether it is stored column by column, type, and where the values begin."""
    stream = io.BytesIO(data)
    try:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_column, dtype = read(stream)
    except ValueError as error:
        raise UserError(
            f"{title} is not an array of numpy ({str(error).splitlines()[0]}); replace the file "
            "with a whole copy."
        ) from error
    return shape, by_column, dtype, stream.tell()
