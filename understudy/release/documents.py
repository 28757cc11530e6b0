"""Reading the documents of a folder that a stranger made: strictly, and in one form only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from understudy.errors import UserError
from understudy.release.doubt import UNREADABLE, reason
from understudy.release.manifest import is_plain
from understudy.release.strict_json import parse_object


class Document(Protocol):
    """A JSON object that has one form as a file."""

    def to_bytes(self) -> bytes: ...


D = TypeVar("D", bound=Document)


def read_plain(folder: Path, name: str) -> bytes | None:
    """What a file holds; None where there is none, and for links and folders."""
    path = folder / name
    try:
        return path.read_bytes() if is_plain(path) else None
    except OSError as error:
        raise UserError(f"{name} cannot be read: {error.strerror}.") from error


def read_document(
    folder: Path, name: str, parse: Callable[[bytes], D]
) -> tuple[D | None, list[str]]:
    """A document, None where there is none that can be read, and what is wrong with it.

    Guarantee: without a problem, the file is byte for byte what its document writes, so it has
    no word, space or order that is anybody's own.
    """
    try:
        data = read_plain(folder, name)
        if data is None:
            return None, []
        found = parse(data)
        form = found.to_bytes()
    except UNREADABLE as error:
        return None, [reason(error, name)]
    return found, [] if form == data else [_other_form(name, data, form)]


def _other_form(name: str, data: bytes, form: bytes) -> str:
    said, meant = parse_object(data, name), parse_object(form, name)
    fields = [repr(key) for key in sorted({*said, *meant}) if said.get(key) != meant.get(key)]
    where = f" (look at {', '.join(fields)})" if fields else ""
    return f"{name} is not in its canonical form{where}."
