"""Synthetic pictures as one PNG: a row a class, pixels untouched, gaps transparent."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from understudy.data.records import Array, Records
from understudy.errors import UserError
from understudy.report.words import shorten

MOST_COLUMNS = 8
MOST_PNG_BYTES = 900_000
_MOST_RAW_BYTES = 4_000_000
_PAGE_WIDTH, _HALF_PAGE_WIDTH, _PHONE_WIDTH = 640, 380, 300
_MOST_FULL_ROWS = 20
_LARGEST_CELL = 64
_LONGEST_NAME = 120


@dataclass(frozen=True)
class Strip:
    """One class: where its row lies in the sheet, and how many pictures it holds."""

    name: str
    top: int
    count: int


@dataclass(frozen=True)
class Sheet:
    """The PNG and the geometry that the page cuts its rows by, in the PNG's pixels.

    `wide` and `narrow` are the whole numbers of screen pixels per pixel on a page and on
    a phone; `shrunk` is above 1 where the pictures had to be reduced to fit the file.
    """

    png: bytes
    width: int
    height: int
    row_height: int
    strips: tuple[Strip, ...]
    columns: int
    wide: int
    narrow: int
    shrunk: int

    @property
    def outgrows_page(self) -> bool:
        """Whether a row is reduced by the browser, where hard pixels would mislead."""
        return self.width > _PAGE_WIDTH

    @property
    def uri(self) -> str:
        return "data:image/png;base64," + base64.b64encode(self.png).decode("ascii")


def sheet(samples: Records, most_columns: int = MOST_COLUMNS) -> Sheet:
    """Lay out the first few pictures of each class, as many as fit the size of a report."""
    if not samples.is_images or samples.shape[0] not in (1, 3):
        raise UserError("samples must be grey or colour images to be drawn as a grid.")
    classes = _positions_by_class(samples)
    columns = min(max((len(where) for _, where in classes), default=0), most_columns)
    if columns == 0:
        raise UserError("samples are empty; a grid needs at least one record.")
    shrunk = 1
    while True:
        for fewer in dict.fromkeys((columns, min(columns, 6), min(columns, 4))):
            laid = _layout(samples, classes, fewer, shrunk)
            if laid is not None:
                return laid
        shrunk *= 2


def _positions_by_class(samples: Records) -> list[tuple[str, Array]]:
    if samples.schema.label is None:
        return [("all", np.arange(len(samples)))]
    labels = samples.labels
    return [(name, np.flatnonzero(labels == c)) for c, name in enumerate(samples.schema.classes)]


def _layout(
    samples: Records, classes: Sequence[tuple[str, Array]], columns: int, shrunk: int
) -> Sheet | None:
    """The sheet at this many columns and reduction, or None where it is too large."""
    channels, height, width = samples.shape
    height, width = max(height // shrunk, 1), max(width // shrunk, 1)
    gap = max(1, round(width / 14))
    total_width, pitch = columns * (width + gap) - gap, height + gap
    can_shrink = min(height, width) > 1
    if can_shrink and len(classes) * pitch * total_width * (channels + 1) > _MOST_RAW_BYTES:
        return None
    canvas = np.zeros((len(classes) * pitch - gap, total_width, channels + 1), dtype=np.uint8)
    for row, (_, where) in enumerate(classes):
        for column, position in enumerate(where[:columns]):
            x, y = column * (width + gap), row * pitch
            cell = canvas[y : y + height, x : x + width]
            cell[..., :-1] = _picture(samples.features[position], height, width)
            cell[..., -1] = 255
    png = _encoded(canvas)
    room = _PAGE_WIDTH if len(classes) <= _MOST_FULL_ROWS else _HALF_PAGE_WIDTH
    if can_shrink and len(png) > MOST_PNG_BYTES:
        return None
    return Sheet(
        png=png,
        width=total_width,
        height=canvas.shape[0],
        row_height=height,
        strips=tuple(
            Strip(shorten(name, _LONGEST_NAME), row * pitch, min(len(where), columns))
            for row, (name, where) in enumerate(classes)
        ),
        columns=columns,
        wide=_whole_scale(total_width, max(height, width), room),
        narrow=_whole_scale(total_width, max(height, width), _PHONE_WIDTH),
        shrunk=shrunk,
    )


def _picture(features: Array, height: int, width: int) -> Array:
    """One record as [height, width, channels]; reduced by area where it must be."""
    pixels = np.moveaxis(np.asarray(features), 0, -1)
    if pixels.shape[:2] == (height, width):
        return pixels
    grey = pixels.shape[2] == 1
    image = Image.fromarray(pixels[..., 0] if grey else pixels)
    reduced = np.asarray(image.resize((width, height), Image.Resampling.BOX))
    return reduced[..., None] if grey else reduced


def _encoded(canvas: Array) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(canvas).save(stream, format="PNG", optimize=True)
    return stream.getvalue()


def _whole_scale(strip_width: int, cell: int, room: int) -> int:
    return max(1, min(room // strip_width, _LARGEST_CELL // cell))
