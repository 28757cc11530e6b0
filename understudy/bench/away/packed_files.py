"""Records and weights that leave with a job: written in pieces, each content once."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from understudy.bench.away.job import FORMAT
from understudy.bench.away.manifest import MANIFEST, PIECES, Manifest, alone_in, scratch_in
from understudy.bench.away.pieces import MEBIBYTE, Content, split
from understudy.data.record_arrays import arrays_of
from understudy.data.records import Records
from understudy.durable import OWNER_ONLY, new_file
from understudy.errors import UserError

PIECE_SIZE = 40 * MEBIBYTE
"""Of what leaves, at most: few machines take much more in one call."""


@dataclass(frozen=True)
class PackedFiles:
    """The files of a job that is being packed. Only their owner may read any of them.

    root: the job folder. piece_size: the most bytes of a piece.
    """

    root: Path
    piece_size: int = PIECE_SIZE

    @staticmethod
    def open(root: Path, piece_size: int = PIECE_SIZE) -> PackedFiles:
        """A new job folder, or one that more is packed into."""
        if piece_size < 1:
            raise UserError(f"the piece size must be at least 1 byte, not {piece_size}.")
        (root / PIECES).mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in (root, root / PIECES):
            folder.chmod(0o700)
        with alone_in(root):
            if (root / MANIFEST).exists():
                Manifest.read(root, FORMAT)
            elif (root / "cells").exists():
                raise UserError(
                    f"{root} holds a job of version 0.1; choose another folder with -o."
                )
            else:
                Manifest(FORMAT).write(root)
        return PackedFiles(root, piece_size)

    def add_records(self, records: Records) -> str:
        """Keep records; gives the name of their file. Nothing in it is pickled."""
        arrays = arrays_of(records)
        digest = hashlib.sha256()
        for name in sorted(arrays):
            digest.update(name.encode() + str(arrays[name].shape).encode())
            digest.update(np.ascontiguousarray(arrays[name]).tobytes())

        def write(file: BinaryIO) -> None:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

        return self._add(f"records/{digest.hexdigest()[:16]}.npz", write)

    def add_weights(self, path: Path) -> str:
        """Keep a file of public weights; gives its name, whose ending stays."""

        def write(file: BinaryIO) -> None:
            with path.open("rb") as source:
                shutil.copyfileobj(source, file, MEBIBYTE)

        return self._add(f"weights/{Content.of(path).sha256[:16]}{path.suffix}", write)

    def add_document(self, path: Path) -> None:
        """Name a small file of the job as it lies there; it travels as it is."""
        name = path.relative_to(self.root).as_posix()
        with alone_in(self.root):
            manifest = Manifest.read(self.root, FORMAT)
            manifest.with_document(name, Content.of(path)).write(self.root)

    def _add(self, name: str, write: Callable[[BinaryIO], None]) -> str:
        with scratch_in(self.root) as room:
            if not self._is_there(name):
                with new_file(room / "whole", OWNER_ONLY) as file:
                    write(file)
                with (room / "whole").open("rb") as whole:
                    found = split(whole, self.root / PIECES, self.piece_size)
                Manifest.read(self.root, FORMAT).with_file(name, found).write(self.root)
        return name

    def _is_there(self, name: str) -> bool:
        """Whether all its pieces lie here: some are dropped where a job was worked off."""
        known = Manifest.read(self.root, FORMAT).files.get(name)
        return known is not None and all(
            (self.root / PIECES / piece.name).exists() for piece in known.pieces
        )
