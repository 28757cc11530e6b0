"""A contact sheet: the first pictures of each class in rows, each row titled with its class.

Every pixel follows from the records alone, whatever machine draws it: pictures are repeated or
thinned by whole numbers, and titles are in a font of fixed pixels. So a sheet can be checked by
drawing it again.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from understudy.data.records import Array, Records
from understudy.data.schema import Schema
from understudy.errors import UserError

MOST_COLUMNS = 10
_MOST_VALUES = 3_000_000
_SIDE, _GAP, _TITLE, _LEAST_WIDTH = 32, 2, 13, 96
_WHITE = 255


@dataclass(frozen=True)
class Row:
    """The first pictures of one class, each `uint8 [C, H, W]`; none where none was made."""

    name: str
    pictures: tuple[Array, ...]


@dataclass(frozen=True)
class Rows:
    """What a sheet shows. left_out: how many classes have no room."""

    rows: tuple[Row, ...]
    shape: tuple[int, ...]
    left_out: int = 0


def rows_of(batches: Iterable[Records], schema: Schema, shape: tuple[int, ...]) -> Rows:
    """The first pictures of each class; reads no more batches than it needs."""
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise UserError("a contact sheet needs images of 1 or 3 channels.")
    names = ("all",) if schema.label is None else schema.classes
    columns, most = _room(len(names), shape)
    found: list[list[Array]] = [[] for _ in names[:most]]
    for records in batches:
        codes = np.zeros(len(records), int) if schema.label is None else records.labels
        for code, pictures in enumerate(found):
            wanted = np.flatnonzero(codes == code)[: columns - len(pictures)]
            pictures += [np.asarray(records.features[i]) for i in wanted]
        if all(len(pictures) == columns for pictures in found):
            break
    rows = tuple(Row(name, tuple(p)) for name, p in zip(names, found, strict=False))
    return Rows(rows, shape, len(names) - len(rows))


def contact_sheet(shown: Rows) -> Array:
    """The sheet as `uint8 [C, height, width]`."""
    channels, height, width = (shown.shape[0], *_cell(shown.shape))
    columns = max((len(row.pictures) for row in shown.rows), default=0)
    pitch = _TITLE + height + _GAP
    more = _TITLE if shown.left_out else 0
    size = (len(shown.rows) * pitch + more, max(columns * (width + _GAP), _LEAST_WIDTH))
    canvas = np.full((channels, *size), _WHITE, np.uint8)
    for position, row in enumerate(shown.rows):
        top = position * pitch
        _write(canvas, top, row.name if row.pictures else f"{row.name} (none)", f"class {position}")
        for column, picture in enumerate(row.pictures):
            left = column * (width + _GAP)
            canvas[:, top + _TITLE : top + _TITLE + height, left : left + width] = _fit(picture)
    if more:
        _write(canvas, len(shown.rows) * pitch, f"and {shown.left_out} more classes", "")
    return canvas


def sheet_of(records: Records) -> Array:
    """The contact sheet of records in memory."""
    return contact_sheet(rows_of([records], records.schema, records.shape))


def beside(sheets: Sequence[tuple[str, Array]]) -> Array:
    """Several sheets next to each other, each under its title; in colour if one is."""
    channels = max(len(sheet) for _, sheet in sheets)
    height = _TITLE + max(sheet.shape[1] for _, sheet in sheets)
    columns = []
    for title, sheet in sheets:
        column = np.full((channels, height, sheet.shape[2] + 4 * _GAP), _WHITE, np.uint8)
        column[:, _TITLE : _TITLE + sheet.shape[1], : sheet.shape[2]] = sheet
        _write(column, 0, title, "release")
        columns.append(column)
    return np.concatenate(columns, axis=2)


def to_png(pixels: Array) -> bytes:
    """A sheet as PNG bytes that carry pixels and nothing else."""
    flat = pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0))
    sink = io.BytesIO()
    Image.fromarray(flat).save(sink, "PNG", compress_level=6)
    return sink.getvalue()


def to_html(png: bytes | None, caption: str) -> str:
    """A picture for a notebook, whole in itself, or its caption alone. caption: plain text."""
    words = escape(caption)
    if png is None:
        return f"<div>{words}</div>"
    data = base64.b64encode(png).decode("ascii")
    return f'<div>{words}<br><img alt="{words}" src="data:image/png;base64,{data}"></div>'


def _room(classes: int, shape: tuple[int, ...]) -> tuple[int, int]:
    """How many columns and how many rows there are: fewer columns first where space is short."""
    height, width = _cell(shape)
    picture = shape[0] * height * width
    columns = max(1, min(MOST_COLUMNS, _MOST_VALUES // (picture * max(classes, 1))))
    return columns, max(1, min(classes, _MOST_VALUES // (picture * columns)))


def _cell(shape: tuple[int, ...]) -> tuple[int, int]:
    """The height and width of one picture on the sheet."""
    times, every = _scale(shape)
    return -(-shape[1] // every) * times, -(-shape[2] // every) * times


def _scale(shape: tuple[int, ...]) -> tuple[int, int]:
    """How often each pixel is repeated, and each how manieth is kept."""
    side = max(shape[1:])
    return max(1, _SIDE // side), max(1, -(-side // (4 * _SIDE)))


def _fit(picture: Array) -> Array:
    times, every = _scale(picture.shape)
    return picture[:, ::every, ::every].repeat(times, axis=1).repeat(times, axis=2)


def _write(canvas: Array, top: int, text: str, otherwise: str) -> None:
    """Black words on white; `otherwise` where the fixed font lacks a character."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        text = otherwise
    line = Image.new("L", (canvas.shape[2], _TITLE), _WHITE)
    ImageDraw.Draw(line).text((0, 0), text, font=ImageFont.load_default_imagefont(), fill=0)
    canvas[:, top : top + _TITLE] = np.asarray(line)
