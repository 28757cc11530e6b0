"""The index of a folder of evidence: which files were written, and the digest of each.

`index.jsonl` is append-only and hash-chained. A file is written in three steps under the
index's lock, so that a crash leaves nothing or a file that can be trusted:

1. the whole file, under a hidden name (`.NAME.json.new`), on the disk;
2. its line in the index, on the disk;
3. its rename.

A hidden file that the index does not list is from a crash before step 2: it never counted,
and the next writer deletes it. One that the index lists counts from then on; readers take
it from there, and the next writer renames it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from understudy.errors import UserError
from understudy.privacy.chained_file import Addition, ChainedFile
from understudy.privacy.ledger import Entry
from understudy.privacy.state import sync_folder, write_durably

FILE = "index.jsonl"
SUFFIX = ".json"
_STAGED_SUFFIX = ".json.new"

NewFile = tuple[str, bytes]
"""The name of a file, without `.json`, and its content."""


class EvidenceIndex:
    """The index of one folder; several processes may add to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = ChainedFile(folder / FILE, "evidence index")

    def listed(self) -> dict[str, str]:
        """The digest of each file by name; where a name was written again, the last one."""
        return _latest(self._file.read())

    def add(self, fill: Callable[[frozenset[str]], Sequence[NewFile]]) -> tuple[Path, ...]:
        """Write new files and their lines.

        `fill` is told which names were ever taken here, and gives the files. A file that
        exists is never overwritten; a name whose file was deleted may be written again.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        names: list[str] = []

        def decide(entries: Sequence[Entry]) -> list[Addition]:
            listed = _latest(entries)
            self._settle(listed)
            new = fill(frozenset(listed) | self._present())
            names.extend(name for name, _ in new)
            return self._stage(new)

        self._file.append(decide)
        return tuple(self._place(name) for name in names)

    def path(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"

    def staged_path(self, name: str) -> Path:
        return self._folder / f".{name}{_STAGED_SUFFIX}"

    def _stage(self, new: Sequence[NewFile]) -> list[Addition]:
        for name, _ in new:
            if self.path(name).exists():
                raise UserError(
                    f"{self.path(name)} exists already; evidence is never edited: "
                    "delete it to repeat the measurement."
                )
        if len({name for name, _ in new}) < len(new):
            raise UserError("two of the evidence files to write have one name; write each once.")
        for name, content in new:
            write_durably(self.staged_path(name), content)
        sync_folder(self._folder)
        return [("file", {"name": name, "sha256": sha256(content)}) for name, content in new]

    def _settle(self, listed: Mapping[str, str]) -> None:
        """Finish what a crash left: listed files get their names, others are deleted."""
        for staged in self._staged():
            name = staged.name.removeprefix(".").removesuffix(_STAGED_SUFFIX)
            if listed.get(name) == sha256(staged.read_bytes()) and not self.path(name).exists():
                self._place(name)
            else:
                staged.unlink(missing_ok=True)

    def _place(self, name: str) -> Path:
        path = self.path(name)
        try:
            self.staged_path(name).rename(path)
        except FileNotFoundError:
            if not path.exists():  # else the next writer came first and placed it
                raise
        sync_folder(self._folder)
        return path

    def _staged(self) -> Iterator[Path]:
        for entry in os.scandir(self._folder):
            if entry.name.startswith(".") and entry.name.endswith(_STAGED_SUFFIX):
                yield Path(entry.path)

    def _present(self) -> frozenset[str]:
        return frozenset(path.stem for path in self._folder.glob(f"*{SUFFIX}"))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _latest(entries: Sequence[Entry]) -> dict[str, str]:
    return {str(e.body["name"]): str(e.body["sha256"]) for e in entries if e.kind == "file"}
