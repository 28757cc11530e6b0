"""Published image files that a list names: decoded and fitted one by one, in bounded memory."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

from understudy.data.images import ImageStack
from understudy.data.published import require_published
from understudy.data.sources.raw import Column, RawPart
from understudy.data.sources.readers import Request
from understudy.data.sources.shelf import Shelf
from understudy.errors import UserError

_WORTH_SAYING = 1e9


@dataclass(frozen=True)
class Listed:
    """The images of one part before any is read: their names on the shelf, and columns."""

    names: list[str]
    columns: Mapping[str, Column]


def read_listed(
    request: Request,
    shelf: Shelf,
    listed: Mapping[str, Listed],
    said_by: str,
    any_size: bool = False,
) -> dict[str, RawPart]:
    """The parts of a dataset whose images lie on `shelf`.

    The list is held against the published facts first, because decoding takes minutes;
    all parts share one array, filled in one pass over the shelf.

    said_by: what an error calls the list.
    any_size: accept pictures of another stored size; copies of the set are scaled differently.
    """
    parts = {part: listed[part] for part in request.entry.parts if part in listed}
    columns = {part: content.columns for part, content in parts.items()}
    require_published(request.entry, columns, said_by)
    names = [name for content in parts.values() for name in content.names]
    _weigh(request, len(names))
    _, height, width = request.entry.stored_shape
    stack = ImageStack(len(names), request.reading, None if any_size else (width, height))
    what = f"reading images from {shelf.place.name}"
    with request.reading.progress.task(what, len(names)) as task:
        for i, data in shelf.read(names):
            stack.add(data, shelf.title(names[i]), i)
            task.advance()
    pixels, raw, start = stack.finish(), dict[str, RawPart](), 0
    for part, content in parts.items():
        stop = start + len(content.names)
        raw[part] = RawPart(pixels[start:stop], content.names, content.columns)
        start = stop
    return raw


def _weigh(request: Request, count: int) -> None:
    """Say what a large set will take, and refuse what this machine cannot hold."""
    entry, reading = request.entry, request.reading
    _, height, width = entry.stored_shape
    shape = (reading.channels or entry.shape[0], reading.size or height, reading.size or width)
    size = count * math.prod(shape)
    if size < _WORTH_SAYING:
        return
    form = "x".join(str(side) for side in shape)
    words = f"{entry.name}: {count:,} images of {form} take {size / 1e9:.1f} GB of memory"
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > installed:
        raise UserError(
            f"{words}, and this machine has {installed / 1e9:.1f} GB; pass a smaller --size."
        )
    reading.progress.say(f"{words}.")
