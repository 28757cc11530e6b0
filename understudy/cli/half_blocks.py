"""Pictures in a terminal: half blocks, two pixels a character."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from understudy.data.contact_sheet import Row, Rows
from understudy.data.records import Array

_SMALLEST = 8
_UPPER, _RESET = "\N{UPPER HALF BLOCK}", "\x1b[0m"


def in_blocks(sheets: Sequence[tuple[str, Rows]], columns: int) -> list[str]:
    """Lines for a terminal of so many columns: each class under its name, release by release."""
    room = columns // len(sheets) - 2
    lines = ["  ".join(title[:room].ljust(room) for title, _ in sheets).rstrip()]
    for name in dict.fromkeys(row.name for _, rows in sheets for row in rows.rows):
        strips = [_strip(_row(rows, name), rows.shape, room) for _, rows in sheets]
        height = max(strip.shape[0] for strip in strips)
        lines += [_printable(name), *_lines(_joined(strips, height))]
    return lines


def _row(rows: Rows, name: str) -> Row:
    return next((row for row in rows.rows if row.name == name), Row(name, ()))


def _strip(row: Row, shape: tuple[int, ...], room: int) -> Array:
    """As many pictures as fit, at least four of a size that shows something: [H, room, 4]."""
    width = max(_SMALLEST, min(shape[2], room // 4 - 1))
    height = max(2, round(shape[1] * width / shape[2] / 2) * 2)
    strip = np.zeros((height, room, 4), np.uint8)
    for position, picture in enumerate(row.pictures[: max(1, room // (width + 1))]):
        left = position * (width + 1)
        cell = _resized(picture, height, width)[:, : room - left]
        strip[:, left : left + cell.shape[1], :3] = cell
        strip[:, left : left + cell.shape[1], 3] = 1
    return strip


def _resized(picture: Array, height: int, width: int) -> Array:
    colours = np.broadcast_to(picture, (3, *picture.shape[1:])).transpose(1, 2, 0)
    image = Image.fromarray(np.ascontiguousarray(colours))
    return np.asarray(image.resize((width, height), Image.Resampling.BOX))


def _joined(strips: Sequence[Array], height: int) -> Array:
    gap = np.zeros((height, 2, 4), np.uint8)
    parts = []
    for strip in strips:
        missing = np.zeros((height - strip.shape[0], *strip.shape[1:]), np.uint8)
        parts += [np.concatenate([strip, missing]), gap]
    return np.concatenate(parts[:-1], axis=1)


def _lines(pixels: Array) -> list[str]:
    return [
        "".join(map(_block, pixels[y].tolist(), pixels[y + 1].tolist())).rstrip(" ")
        for y in range(0, len(pixels), 2)
    ]


def _block(above: list[int], below: list[int]) -> str:
    """One character: its upper half in one colour and its lower in another, or nothing."""
    if not above[3]:
        return " "
    front, back = (";".join(map(str, pixel[:3])) for pixel in (above, below))
    return f"\x1b[38;2;{front}m\x1b[48;2;{back}m{_UPPER}{_RESET}"


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)
