"""Every image that would not be read faithfully is refused by name; the others come through."""

from __future__ import annotations

import io
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageFile

from tests.data.samples import encoded, picture, pixels_of, refused
from understudy.data.images import ImageStack, Reading, decode_image, fit_pixels, to_array
from understudy.progress import Silent

NAME = "scans/patient 7.png"


@pytest.fixture(autouse=True)
def _no_warning_leaks():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def png(width: int, height: int, depth: int, colour: int, body: bytes) -> bytes:
    """A PNG file written by hand, for what Pillow does not write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(body)),
            chunk(b"IEND", b""),
        ]
    )


def animated(kind: str) -> bytes:
    frames = [picture(i) for i in range(3)]
    return encoded(frames[0], kind, save_all=True, append_images=frames[1:])


def sixteen_bit_colour() -> bytes:
    return png(2, 2, 16, 2, b"".join(b"\0" + bytes(range(12)) for _ in range(2)))


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_images_come_back_pixel_for_pixel(mode, kind):
    original = picture(3, (5, 4), mode)
    decoded = decode_image(encoded(original, kind), NAME)
    assert decoded.mode == mode
    assert (to_array(decoded) == pixels_of(original)).all()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", ("empty", "0 bytes"), id="zero-byte"),
        pytest.param(
            b"these are notes, not pixels", ("not an image", "PNG or JPEG"), id="unreadable"
        ),
        pytest.param(b"\x89PNG\r\n\x1a\n" + b"\0" * 40, ("not an image",), id="broken header"),
        pytest.param(encoded(picture(size=(64, 64)))[:-900], ("truncated",), id="truncated png"),
        pytest.param(
            encoded(picture(size=(64, 64)), "JPEG")[:-400], ("truncated",), id="truncated jpeg"
        ),
        pytest.param(
            encoded(Image.fromarray(np.full((4, 4), 40_000, np.uint16))), ("8 bits",), id="16-bit"
        ),
        pytest.param(
            encoded(Image.fromarray(np.full((4, 4), 70_000, np.int32)), "TIFF"),
            ("8 bits", "mode I"),
            id="mode I",
        ),
        pytest.param(
            encoded(Image.fromarray(np.ones((4, 4), np.float32)), "TIFF"),
            ("8 bits", "mode F"),
            id="mode F",
        ),
        pytest.param(sixteen_bit_colour(), ("8 bits",), id="16-bit colour"),
        pytest.param(b"P6 2 1 65535\n" + bytes(12), ("8 bits",), id="16-bit ppm"),
        pytest.param(encoded(picture(mode="CMYK"), "JPEG"), ("CMYK", "RGB"), id="cmyk"),
        pytest.param(animated("GIF"), ("3 frames", "one frame per file"), id="animated gif"),
        pytest.param(animated("PNG"), ("3 frames",), id="animated png"),
        pytest.param(animated("WEBP"), ("3 frames",), id="animated webp"),
        pytest.param(animated("TIFF"), ("3 frames", "multi-page"), id="multi-page tiff"),
        pytest.param(png(9_000, 9_000, 8, 0, b""), ("64,000,000", "shrink"), id="bomb"),
        pytest.param(png(60_000, 60_000, 8, 0, b""), ("64,000,000", "shrink"), id="large bomb"),
        pytest.param(encoded(picture(mode="LAB"), "TIFF"), ("mode LAB",), id="lab"),
    ],
)
def test_refuses_by_name_and_says_what_would_be_right(data, words):
    with refused(NAME, *words):
        decode_image(data, NAME)


def test_the_pixel_limit_is_the_callers_and_no_global():
    data = encoded(picture(size=(20, 20)))
    assert decode_image(data, NAME, pixel_limit=400).size == (20, 20)
    with refused(NAME, "399 pixels"):
        decode_image(data, NAME, pixel_limit=399)


def test_a_switch_that_hides_truncation_is_noticed(monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with refused("LOAD_TRUNCATED_IMAGES"):
        decode_image(encoded(picture()), NAME)


@pytest.mark.parametrize("kind", ["GIF", "PNG"])
def test_palette_becomes_colour(kind):
    original = picture(5).quantize(16)
    decoded = decode_image(encoded(original, kind), NAME)
    assert decoded.mode == "RGB"
    assert (np.asarray(decoded) == np.asarray(original.convert("RGB"))).all()


def test_bilevel_becomes_grey():
    decoded = decode_image(encoded(picture(mode="1")), NAME)
    assert decoded.mode == "L"
    assert set(np.unique(np.asarray(decoded))) <= {0, 255}


@pytest.mark.parametrize(("mode", "plain"), [("RGBA", "RGB"), ("LA", "L")])
def test_alpha_that_hides_nothing_is_dropped_and_any_other_refused(mode, plain):
    opaque = picture(1).convert(mode)
    decoded = decode_image(encoded(opaque), NAME)
    assert decoded.mode == plain
    assert (np.asarray(decoded) == np.asarray(opaque.convert(plain))).all()
    opaque.putpixel((2, 2), (*opaque.getpixel((2, 2))[:-1], 254))
    with refused(NAME, "transparent", "flatten"):
        decode_image(encoded(opaque), NAME)


def test_a_transparent_palette_entry_is_transparency():
    with refused(NAME, "transparent"):
        decode_image(encoded(picture().quantize(8), transparency=0), NAME)


class Listener(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def turned(value: int, kind: str = "JPEG") -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(picture(value, (8, 4)), kind, exif=exif)


def test_exif_orientation_is_not_applied_and_said_once():
    listener = Listener()
    stack = ImageStack(3, Reading(progress=listener))
    for value, name in enumerate(("a.jpg", "b.jpg")):
        stack.add(turned(value), name)
    stack.add(encoded(picture(2, (8, 4)), "JPEG"), "c.jpg")
    pixels = stack.finish()
    assert pixels.shape == (3, 3, 4, 8)
    stored = Image.open(io.BytesIO(turned(0)))
    assert (pixels[0] == pixels_of(stored)).all()
    assert len(listener.lines) == 1
    assert "a.jpg" in listener.lines[0]
    assert "not applied" in listener.lines[0]


def test_tiff_orientation_is_refused_because_the_decoder_would_apply_it():
    with refused(NAME, "orientation", "upright"):
        decode_image(turned(0, "TIFF"), NAME)


def stacked(reading: Reading, **images: Image.Image) -> np.ndarray:
    stack = ImageStack(len(images), reading)
    for name, image in images.items():
        stack.add(encoded(image), f"{name}.png")
    return stack.finish()


def test_mixed_sizes_name_both_files_and_the_fix_works():
    images = {"tall": picture(0, (6, 9)), "wide": picture(1, (12, 7))}
    with refused("tall.png", "6x9", "wide.png", "12x7", "--size 8"):
        stacked(Reading(), **images)
    assert stacked(Reading(size=8), **images).shape == (2, 3, 8, 8)


def test_large_mixed_sizes_are_answered_with_sizes_that_methods_take():
    images = {"tall": picture(0, (369, 412)), "wide": picture(1, (500, 369))}
    with refused("tall.png", "pass --size 32 or --size 64 to crop"):
        stacked(Reading(), **images)


def test_mixed_grey_and_colour_name_both_files_and_the_fix_works():
    images = {"grey": picture(0, mode="L"), "bright": picture(1)}
    with refused("grey.png", "bright.png", "--channels"):
        stacked(Reading(), **images)
    assert stacked(Reading(channels=1), **images).shape == (2, 1, 6, 6)
    colour = stacked(Reading(channels=3), **images)
    assert (colour[0, 0] == colour[0, 2]).all()


def test_resizing_crops_the_middle_first():
    striped = np.zeros((8, 24, 3), np.uint8)
    striped[:, 8:16] = 200
    assert (stacked(Reading(size=4), one=Image.fromarray(striped)) == 200).all()


def test_arrays_are_fitted_as_files_are():
    image = picture(4, (10, 8))
    from_file = stacked(Reading(size=5, channels=1), one=image)
    from_array = fit_pixels(pixels_of(image)[None], Reading(size=5, channels=1))
    assert (from_file == from_array).all()
    unchanged = pixels_of(image)[None]
    assert fit_pixels(unchanged, Reading()) is unchanged


@pytest.mark.parametrize(
    ("options", "word"),
    [({"size": 0}, "size"), ({"size": 9999}, "size"), ({"channels": 4}, "channels")],
)
def test_reading_refuses_senseless_wishes(options, word):
    with refused(word):
        Reading(**options)
