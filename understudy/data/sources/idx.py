"""The idx format of MNIST and its relatives: a magic number, sizes, then raw bytes."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from understudy.data.images import Reading, fit_pixels
from understudy.data.published import digests
from understudy.data.records import Array
from understudy.data.sources.raw import Column, RawPart
from understudy.data.sources.readers import Request
from understudy.errors import UserError

STANDARD_PARTS: Mapping[str, tuple[str, str]] = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}

_UINT8 = 0x08
_PIECE = 1 << 24


def read_idx(path: Path, dimensions: int) -> Array:
    """The uint8 array in one idx file, gzip-compressed (`.gz`) or plain."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            header = file.read(4 + 4 * dimensions)
            shape = _shape(header, dimensions, path)
            expected = math.prod(shape)
            body = _read_up_to(file, expected + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(
            f"{path} is truncated or damaged; replace it with a whole copy of the idx file."
        ) from error
    if len(body) != expected:
        much = "fewer" if len(body) < expected else "more"
        raise UserError(
            f"{path} holds {much} bytes than the {expected:,} that its header announces; "
            "replace it with a whole copy."
        )
    return np.frombuffer(body, np.uint8).reshape(shape)


def load_idx_pair(
    images: Path, labels: Path, reading: Reading, classes: tuple[str, ...] | None = None
) -> RawPart:
    """One part: an image file and the label file that goes with it."""
    pixels, codes = read_idx(images, 3), read_idx(labels, 1)
    if len(pixels) != len(codes):
        raise UserError(
            f"{images} holds {len(pixels):,} images but {labels} holds {len(codes):,} labels; "
            "they must come from the same set."
        )
    if not len(pixels):
        raise UserError(f"{images} holds no images; replace it with a whole copy.")
    names = [f"{images} image {i}" for i in range(len(pixels))]
    column = Column(codes.tolist(), classes)
    return RawPart(fit_pixels(pixels[:, None], reading), names, {"label": column})


def find_idx(folder: Path, name: str) -> Path | None:
    """The file of this standard name, compressed or not."""
    for candidate in (folder / f"{name}.gz", folder / name):
        if candidate.is_file():
            return candidate
    return None


def has_idx(folder: Path) -> bool:
    """Whether the folder holds files with the standard names of the MNIST family."""
    return any(find_idx(folder, name) for pair in STANDARD_PARTS.values() for name in pair)


def load_idx_folder(folder: Path, reading: Reading) -> dict[str, RawPart]:
    """The `train` and `test` parts of a folder with the standard file names."""
    parts: dict[str, RawPart] = {}
    for part, (image_name, label_name) in STANDARD_PARTS.items():
        images, labels = find_idx(folder, image_name), find_idx(folder, label_name)
        if images is not None and labels is not None:
            parts[part] = load_idx_pair(images, labels, reading)
        elif images is not None or labels is not None:
            missing = label_name if images is not None else image_name
            raise UserError(f"{folder} lacks {missing} (or {missing}.gz); put it beside the rest.")
    return parts


def read_published_idx(request: Request) -> dict[str, RawPart]:
    """A catalog dataset of this format, whose pixels and labels must be the published ones."""
    entry, folder = request.entry, request.folder
    wanted = [name for part in entry.parts for name in STANDARD_PARTS[part]]
    missing = [f"{name}.gz" for name in wanted if find_idx(folder, name) is None]
    if missing:
        raise UserError(f"{folder} lacks {', '.join(missing)}; {entry.where_from}.")
    parts: dict[str, RawPart] = {}
    for part, known in entry.parts.items():
        images, labels = (find_idx(folder, name) for name in STANDARD_PARTS[part])
        assert images is not None
        assert labels is not None
        as_stored = Reading(progress=request.reading.progress)
        parts[part] = load_idx_pair(images, labels, as_stored, entry.classes)
        found = digests(parts[part], "label")
        for path, own, published in zip(
            (images, labels), found, (known.pixels, known.labels), strict=True
        ):
            if own != published:
                raise UserError(
                    f"{path} is not the published file of {entry.name}; {entry.where_from}, or "
                    "load it under another name by its folder."
                )
    return parts


def _read_up_to(file: io.BufferedIOBase, count: int) -> bytearray:
    """In pieces: a header may announce more than memory, and must not be believed first."""
    body = bytearray()
    while count > len(body) and (piece := file.read(min(count - len(body), _PIECE))):
        body += piece
    return body


def _shape(header: bytes, dimensions: int, path: Path) -> tuple[int, ...]:
    magic = bytes((0, 0, _UINT8, dimensions))
    if len(header) < 4 + 4 * dimensions and header[:4] == magic[: len(header)]:
        raise UserError(f"{path} ends inside its header; replace it with a whole copy.")
    if header[:4] != magic:
        raise UserError(
            f"{path} starts with {header[:4].hex() or 'nothing'}, not {magic.hex()}; it must be "
            f"an idx file of bytes with {dimensions} dimension{'s' if dimensions > 1 else ''}."
        )
    return struct.unpack(f">{dimensions}I", header[4:])
