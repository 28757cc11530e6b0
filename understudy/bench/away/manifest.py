"""What says which files travel: `manifest.json`, of a job or of a result.

FOLDER/manifest.json has every file with length and digest, and its pieces with theirs;
FOLDER/pieces/*.piece are the pieces, each called by its digest.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from understudy.bench.away.pieces import Content, FileInPieces, Piece
from understudy.durable import OWNER_ONLY, replace_durably
from understudy.errors import UserError, reading

MANIFEST = "manifest.json"
PIECES = "pieces"
_LOCK = ".lock"


@dataclass(frozen=True)
class Manifest:
    """The files of one folder by the names that they have in it, once joined.

    form: what the folder is, with the number of its format.
    files: those that travel in pieces. documents: small ones, which travel as they are.
    """

    form: str
    files: Mapping[str, FileInPieces] = field(default_factory=dict)
    documents: Mapping[str, Content] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Whole or not at all, for its owner alone: it holds digests of private records."""
        files = {name: file.to_json() for name, file in sorted(self.files.items())}
        documents = {name: one.to_json() for name, one in sorted(self.documents.items())}
        whole = {"format": self.form, "documents": documents, "files": files}
        content = json.dumps(whole, indent=1)
        replace_durably(folder / MANIFEST, content.encode(), OWNER_ONLY)

    @staticmethod
    def read(folder: Path, form: str) -> Manifest:
        path = folder / MANIFEST
        if not path.is_file():
            raise UserError(
                f"{folder} has no {MANIFEST}: bring it from where it was written; a job that "
                "version 0.1 packed has none, so pack that one again."
            )
        with reading(path):
            data = json.loads(path.read_text(encoding="utf-8"))
            found = data["format"]
        if found != form:
            raise UserError(
                f"{path} has format {found!r}, not {form!r}; write it again with this version."
            )
        with reading(path):
            files = {_plain(k): FileInPieces.from_json(v) for k, v in data["files"].items()}
            documents = {_plain(k): Content.from_json(v) for k, v in data["documents"].items()}
        return Manifest(form, files, documents)

    def with_file(self, name: str, file: FileInPieces) -> Manifest:
        return replace(self, files={**self.files, name: file})

    def with_document(self, name: str, content: Content) -> Manifest:
        return replace(self, documents={**self.documents, name: content})

    def file(self, name: str, folder: Path) -> FileInPieces:
        if name not in self.files:
            raise UserError(
                f"{folder / MANIFEST} does not name {name}, which a job needs; bring it again from "
                "where the job was packed."
            )
        return self.files[name]

    def pieces(self) -> set[Piece]:
        """All of them, each once."""
        return {piece for file in self.files.values() for piece in file.pieces}


@contextmanager
def scratch_in(folder: Path) -> Iterator[Path]:
    """Work in a folder alone, with an empty room in it that is gone afterwards. What a killed
    process left there is deleted first: it may hold private records."""
    room = folder / ".new"
    with alone_in(folder):
        shutil.rmtree(room, ignore_errors=True)
        room.mkdir(mode=0o700)
        try:
            yield room
        finally:
            shutil.rmtree(room)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process adds to a folder or joins in it; a process that dies lets go."""
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _plain(name: str) -> str:
    """A name that stays inside its folder and hides nothing."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or any(part.startswith(".") for part in parts):
        raise ValueError(f"{name!r} is no name of a file in a folder")
    return name
