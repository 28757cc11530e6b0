"""Images as PNG bytes that carry pixels and nothing else."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image

from understudy.data.records import Array
from understudy.errors import UserError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PIXEL_CHUNKS = (b"IHDR", b"IDAT", b"IEND")
_COLOUR_TYPES = {1: 0, 3: 2}
"""PNG colour type by number of channels: grey and RGB, eight bits each."""


def encode_png(image: Array) -> bytes:
    """A `uint8 [C, H, W]` image; the same pixels give the same bytes, without metadata."""
    pixels = image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0))
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, "PNG", compress_level=6)
    return sink.getvalue()


def decode_png(data: bytes, shape: tuple[int, ...]) -> Array:
    """The `uint8 [C, H, W]` image; its size is checked before anything is unpacked."""
    problem = png_problem(data, shape)
    if problem:
        raise UserError(f"an image {problem}.")
    try:
        pixels = np.asarray(Image.open(io.BytesIO(data)))
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"an image cannot be decoded: {error}.") from error
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def png_problem(data: bytes, shape: tuple[int, ...]) -> str | None:
    """Why these bytes are not a bare PNG of this shape, or None if they are.

    Only header, pixel data and end are allowed: EXIF, text, time and colour profiles
    can carry what was never meant to leave.
    """
    if not data.startswith(_SIGNATURE):
        return "is not a PNG"
    try:
        chunks = list(_chunks(data))
    except struct.error:
        return "is a truncated or damaged PNG"
    foreign = [name for name, _ in chunks if name not in _PIXEL_CHUNKS]
    if foreign:
        return f"carries metadata (PNG chunk {foreign[0].decode('latin-1')!r})"
    names = [name for name, _ in chunks]
    if names[:1] != [b"IHDR"] or names[-1:] != [b"IEND"] or len(chunks[0][1]) != 13:
        return "is a malformed PNG"
    channels, height, width = shape
    expected = struct.pack(
        ">IIBBBBB", width, height, 8, _COLOUR_TYPES.get(channels, -1) & 255, *b"\0\0\0"
    )
    if chunks[0][1] != expected:
        return f"does not have the declared shape {list(shape)}"
    packed = b"".join(content for name, content in chunks if name == b"IDAT")
    return _pixel_problem(packed, height * (1 + channels * width))


def _pixel_problem(packed: bytes, expected: int) -> str | None:
    """Why the packed pixels are not `expected` bytes and nothing after them; None if they are."""
    unpacking = zlib.decompressobj()
    try:
        unpacked = unpacking.decompress(packed, expected + 1)
    except zlib.error:
        return "is a damaged PNG"
    if len(unpacked) != expected or not unpacking.eof:
        return "does not hold as many pixels as its header says"
    return "carries bytes after its pixels" if unpacking.unused_data else None


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and contents in order; bytes after the end, or a wrong checksum, are a broken chunk."""
    position = len(_SIGNATURE)
    while position < len(data):
        length, name = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        if end > len(data) or (name == b"IEND" and end != len(data)):
            raise struct.error
        if zlib.crc32(data[position + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            raise struct.error
        yield name, data[position + 8 : end - 4]
        position = end
