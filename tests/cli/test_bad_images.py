"""Bad images: each is named, with what would be right, and nothing is spent or left."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace

RUN = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "out")


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def grey(width: int = 8, value: int = 7) -> Image.Image:
    return Image.new("L", (width, 8), value)


def chunk(kind: bytes, content: bytes) -> bytes:
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))


def bomb() -> bytes:
    """A PNG of a few hundred bytes whose header promises ten thousand million pixels."""
    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def truncated_late() -> bytes:
    """Whole header, half the pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8), np.uint8)
    return encoded(Image.fromarray(pixels), "PNG")[:-40]


BAD: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "unreadable": ("bad.png", lambda: b"this is no picture", "PNG or JPEG"),
    "truncated": ("bad.png", truncated_late, "whole copy"),
    "truncated in the header": ("bad.png", lambda: encoded(grey(), "PNG")[:20], "PNG or JPEG"),
    "empty": ("bad.png", lambda: b"", "0 bytes"),
    "16-bit": ("bad.png", lambda: encoded(Image.new("I;16", (8, 8)), "PNG"), "8 bits"),
    "CMYK": ("bad.jpg", lambda: encoded(Image.new("CMYK", (8, 8)), "JPEG"), "RGB or grey"),
    "animated": (
        "bad.gif",
        lambda: encoded(grey(), "GIF", save_all=True, append_images=[grey(value=90)]),
        "one frame",
    ),
    "bomb": ("bad.png", bomb, "pixels"),
    "another size": ("bad.png", lambda: encoded(grey(width=9), "PNG"), "--size 8"),
    "another mode": ("bad.png", lambda: encoded(Image.new("RGB", (8, 8)), "PNG"), "--channels"),
    "not an image": ("notes.txt", lambda: b"hello", "not an image file"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_named_and_nothing_happens(workplace: Workplace, kind: str) -> None:
    name, content, remedy = BAD[kind]
    drawing.class_folder(workplace / "photos")
    (workplace / "photos/cross" / name).write_bytes(content())
    before = workplace.tree()
    workplace.run(*RUN).refused(f"photos/cross/{name}", remedy)
    assert workplace.tree() == before
    assert workplace.book("enter") == []


def test_the_remedies_for_mixed_sizes_and_modes_work(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    for name, image in (("wide.png", grey(width=9)), ("colour.png", Image.new("RGB", (8, 8)))):
        (workplace / "photos/cross" / name).write_bytes(encoded(image, "PNG"))
    workplace.run(*RUN, "--size", "8", "--channels", "1").succeeded()


def test_a_class_with_one_image_or_none_is_said_to_the_owner_alone(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    lone: Path = workplace / "photos/lonely"
    for count, words in enumerate(("no image", "a single image", "")):
        lone.mkdir(exist_ok=True)
        if count:
            (lone / f"{count}.png").write_bytes(encoded(grey(value=count), "PNG"))
        done = workplace.run(*RUN[:-1], f"out-{count}").succeeded()
        assert ("warning" in done.err) == bool(words)
        assert f"have {words}: 'lonely'" in done.err or not words
        assert "np." not in done.err
        assert "warning" not in (workplace / f"out-{count}/README.md").read_text()


def test_declared_classes_need_no_look_at_how_often_they_occur(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    workplace.run(*RUN, "--classes", "cross").refused("'round'", "declared")
    workplace.run(*RUN, "--classes", "cross,round,square").succeeded()


def test_class_folders_that_are_all_empty(workplace: Workplace) -> None:
    (workplace / "photos/nothing").mkdir(parents=True)
    workplace.run(*RUN).refused("photos", "no image")
    assert workplace.book("enter") == []


def test_a_damaged_parquet_file(workplace: Workplace) -> None:
    whole = drawing.parquet_file(workplace / "whole.parquet").read_bytes()
    words = (*SMALL_MERF, "--epsilon", "1", "-o", "out")
    for damage in (b"", b"PAR1", whole[: len(whole) // 2], whole[:50] + bytes(50) + whole[100:]):
        (workplace / "bad.parquet").write_bytes(damage)
        workplace.run("synthesize", "bad.parquet", *words).refused("bad.parquet")
    assert workplace.tree() == {"whole.parquet", "bad.parquet"}
