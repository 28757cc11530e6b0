"""A file in pieces that travel apart: split on one machine, checked and joined on the other.

A piece is called by the digest of its content, so equal content is kept once, and a piece that
was renamed, cut short or changed on the way is known for what it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from understudy.durable import OWNER_ONLY, replace_durably, replacing
from understudy.errors import UserError

MEBIBYTE = 1 << 20
ENDING = ".piece"

_CHUNK = MEBIBYTE
_SHA256 = re.compile("[0-9a-f]{64}")


class FileState(StrEnum):
    """How a file lies where it is needed."""

    THERE = "there"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Content:
    """What a file holds, by digest and length."""

    sha256: str
    length: int

    def __post_init__(self) -> None:
        """Raises ValueError for what is no digest: a piece is found by its digest as a name."""
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError("a digest is not 64 hexadecimal digits")

    @staticmethod
    def of(path: Path) -> Content:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return Content(digest, file.tell())

    def state_at(self, path: Path) -> FileState:
        """Whether a file holds this very content; every byte of it is read."""
        if not path.is_file():
            return FileState.MISSING
        found = Content.of(path)
        same = (found.sha256, found.length) == (self.sha256, self.length)
        return FileState.THERE if same else FileState.DAMAGED

    def to_json(self) -> dict[str, Any]:
        return {"sha256": self.sha256, "length": self.length}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Content:
        return Content(data["sha256"], data["length"])


@dataclass(frozen=True)
class Piece(Content):
    """Some bytes of a file, in a file of their own."""

    @property
    def name(self) -> str:
        return f"{self.sha256}{ENDING}"

    def state(self, room: Path) -> FileState:
        """Of this piece in a folder of pieces."""
        return self.state_at(room / self.name)


@dataclass(frozen=True)
class FileInPieces(Content):
    """A whole file, and its pieces in their order."""

    pieces: tuple[Piece, ...]

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "pieces": [piece.to_json() for piece in self.pieces]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> FileInPieces:
        """Raises ValueError for what no split makes."""
        pieces = tuple(Piece(each["sha256"], each["length"]) for each in data["pieces"])
        if data["length"] != sum(piece.length for piece in pieces):
            raise ValueError("the pieces of a file are not as long as the file")
        return FileInPieces(data["sha256"], data["length"], pieces)


def split(source: BinaryIO, room: Path, most: int) -> FileInPieces:
    """Write what a file holds as pieces of at most so many bytes, for their owner alone.

    A piece that lies there whole is not written again; each is on the disk when this returns.
    """
    if most < 1:
        raise UserError(f"the piece size must be at least 1 byte, not {most}.")
    whole, pieces = hashlib.sha256(), []
    while content := source.read(most):
        whole.update(content)
        piece = Piece(hashlib.sha256(content).hexdigest(), len(content))
        if piece.state(room) is not FileState.THERE:
            replace_durably(room / piece.name, content, OWNER_ONLY)
        pieces.append(piece)
    return FileInPieces(whole.hexdigest(), sum(p.length for p in pieces), tuple(pieces))


def join(file: FileInPieces, room: Path, target: Path, name: str) -> None:
    """Make the file anew from its pieces, for its owner alone: the very one that was split, or
    none.

    Killed on the way, half a file is left beside `target`, never at it; the next call removes it.
    Only one process at a time may join one file.
    """
    for half in target.parent.glob(f".{target.name}.*.new"):
        half.unlink()
    digest = hashlib.sha256()
    with replacing(target, OWNER_ONLY) as out:
        for number, piece in enumerate(file.pieces, start=1):
            words = f"piece {number} of {len(file.pieces)} of {name}"
            for chunk in _chunks(piece, room, words):
                digest.update(chunk)
                out.write(chunk)
        if digest.hexdigest() != file.sha256:
            raise UserError(f"the pieces of {name} make another file; bring the manifest again.")


def _chunks(piece: Piece, room: Path, words: str) -> Iterator[bytes]:
    """What a piece holds; that it was damaged is said after its last chunk, so whoever reads them
    must keep nothing of them then."""
    path = room / piece.name
    if not path.is_file():
        raise UserError(f"{words} is missing: bring {piece.name} into {room}.")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            yield chunk
    if digest.hexdigest() != piece.sha256:
        raise UserError(f"{words} is damaged: bring {piece.name} into {room} again.")
