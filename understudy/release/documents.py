"""Reading the documents of a folder that a stranger made: strictly, and in one form only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from understudy.errors import UserError
from understudy.release.doubt import UNREADABLE, reason
from understudy.release.manifest import is_plain


class Document(Protocol):
    """What has one form as a file."""

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
        same = found.to_bytes() == data
    except UNREADABLE as error:
        return None, [reason(error, name)]
    return found, [] if same else [f"{name} is not in its canonical form."]


def check_statement(said: Sequence[str], meant: Sequence[str], where: str) -> None:
    """Refuse sentences that are not those which the figures beside them make."""
    for number, (one, other) in enumerate(zip(said, meant, strict=False), start=1):
        if one != other:
            raise UserError(
                f"{where}: sentence {number} of the statement says {one!r}, "
                f"but its figures say {other!r}."
            )
    if len(said) != len(meant):
        raise UserError(
            f"{where}: the statement has {len(said)} sentences, but its figures make {len(meant)}."
        )
