import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from understudy.errors import UserError
from understudy.release.png import decode_png, encode_png, png_problem


def image(channels: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (channels, 7, 5), dtype=np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_survive_and_bytes_repeat(channels: int) -> None:
    pixels = image(channels)
    data = encode_png(pixels)
    assert np.array_equal(decode_png(data, pixels.shape), pixels)
    assert encode_png(pixels.copy()) == data
    assert png_problem(data, pixels.shape) is None


@pytest.mark.parametrize("kind", ["exif", "text", "profile"])
def test_metadata_in_an_image_is_found(kind: str) -> None:
    info = PngImagePlugin.PngInfo()
    info.add_text("Author", "Dr Who")
    exif = Image.Exif()
    exif[0x010F] = "a camera"
    extra = {
        "exif": {"exif": exif},
        "text": {"pnginfo": info},
        "profile": {"icc_profile": b"profile"},
    }[kind]
    sink = io.BytesIO()
    Image.fromarray(image(1)[0]).save(sink, "PNG", **extra)
    assert "carries metadata" in (png_problem(sink.getvalue(), (1, 7, 5)) or "")
    with pytest.raises(UserError, match="carries metadata"):
        decode_png(sink.getvalue(), (1, 7, 5))


def test_what_is_not_such_an_image_is_refused() -> None:
    good = encode_png(image(1))
    wrong = {
        "is not a PNG": b"GIF89a",
        "is a truncated or damaged PNG": good[:-3],
        "does not have the declared shape": encode_png(image(3)),
    }
    for words, data in wrong.items():
        assert words in (png_problem(data, (1, 7, 5)) or "")
    assert "truncated" in (png_problem(good + b"tail", (1, 7, 5)) or "")
    assert "malformed" in (png_problem(good[:8] + good[33:], (1, 7, 5)) or "")
    assert "declared shape" in (png_problem(good, (1, 70_000, 70_000)) or "")


def test_broken_pixel_data_is_a_sentence() -> None:
    good = bytearray(encode_png(image(1)))
    good[60] ^= 0xFF
    with pytest.raises(UserError, match="truncated or damaged"):
        decode_png(bytes(good), (1, 7, 5))


def chunk(name: bytes, content: bytes) -> bytes:
    checked = name + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))


def repacked(packed: bytes) -> bytes:
    """A grey 7 x 5 PNG with these bytes where the pixels should be, all checksums right."""
    header = struct.pack(">IIBBBBB", 5, 7, 8, 0, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", packed), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


PIXELS = bytes(7 * 6)


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (zlib.compress(PIXELS), None),
        (zlib.compress(PIXELS) + b"patient 17", "carries bytes after its pixels"),
        (zlib.compress(PIXELS + b"patient 17"), "does not hold as many pixels"),
        (zlib.compress(PIXELS[:-1]), "does not hold as many pixels"),
        (zlib.compress(PIXELS)[:-2], "does not hold as many pixels"),
        (b"patient 17", "is a damaged PNG"),
        (zlib.compress(bytes(10**7)), "does not hold as many pixels"),
    ],
)
def test_nothing_hides_behind_the_pixels(packed: bytes, words: str | None) -> None:
    found = png_problem(repacked(packed), (1, 7, 5))
    assert found is None if words is None else words in (found or "")
