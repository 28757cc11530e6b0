"""Small images and folders that several tests of this room write."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from understudy.data.records import Images, Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.progress import Silent


def picture(value: int = 0, size: tuple[int, int] = (6, 6), mode: str = "RGB") -> Image.Image:
    """A picture whose pixels all differ from those of another value."""
    pixels = np.random.default_rng(value).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return Image.fromarray(pixels).convert(mode)


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def save(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def pixels_of(image: Image.Image) -> np.ndarray:
    array = np.asarray(image)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


class Said(Silent):
    """Progress that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


@contextmanager
def refused(*words: str) -> Iterator[None]:
    """A UserError of one sentence that names every one of these words."""
    with pytest.raises(UserError) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    for word in words:
        assert word in message, message


def make_records(count: int, seed: int = 0, units: int | None = None) -> Records:
    """Random images with two attributes; `units` people share them."""
    rng = np.random.default_rng(seed)
    return Images(
        rng.integers(0, 256, (count, 1, 5, 5), np.uint8),
        {"shape": rng.integers(0, 3, count), "tone": rng.integers(0, 2, count)},
        Schema((Attribute("shape", ("a", "b", "c")), Attribute("tone", ("x", "y"))), label="shape"),
        None if units is None else rng.integers(0, units, count).astype(str),
    )
