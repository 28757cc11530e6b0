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
from dataclasses import dataclass
from pathlib import Path

from understudy.durable import sync_folder, write_durably
from understudy.errors import UserError
from understudy.privacy.ledger.chained_file import Addition, ChainedFile
from understudy.privacy.ledger.entries import Entry

FILE = "index.jsonl"
WITHDRAWN = "withdrawn"
"""The kind of a line that takes a file back. The line stays, with the reason; so does the
line that listed the file, with its digest."""
SUFFIX = ".json"
_STAGED_SUFFIX = ".json.new"


@dataclass(frozen=True)
class NewFile:
    """A file to be: its name without `.json`, the kind of evidence, and the content."""

    name: str
    kind: str
    content: bytes


@dataclass(frozen=True)
class Listed:
    """What the index says of a file."""

    kind: str
    sha256: str


class EvidenceIndex:
    """The index of one folder; several processes may add to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = ChainedFile(folder / FILE, "evidence index")

    def listed(self) -> dict[str, Listed]:
        """Every file by name, in the order of writing; of a name written again, the last."""
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
            names.extend(file.name for file in new)
            return self._stage(new)

        self._file.append(decide)
        for name in names:
            self._place(name)
        sync_folder(self._folder)
        return tuple(self.path(name) for name in names)

    def withdraw(self, names: Sequence[str], why: str) -> None:
        """Take files back, because what they measured is no longer what the code does.

        Their files are deleted; the index keeps that they were there, and why they went.
        """
        if not why.strip():
            raise UserError("say why the evidence is withdrawn; the index keeps the reason.")

        def decide(entries: Sequence[Entry]) -> list[Addition]:
            listed = _latest(entries)
            self._settle(listed)
            for name in names:
                if name not in listed:
                    raise UserError(f"{name} is not listed in {self._folder / FILE}.")
            return [(WITHDRAWN, {"name": name, "why": why}) for name in names]

        self._file.append(decide)
        for name in names:
            self.path(name).unlink(missing_ok=True)
        sync_folder(self._folder)

    def path(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"

    def staged_path(self, name: str) -> Path:
        return self._folder / f".{name}{_STAGED_SUFFIX}"

    def _stage(self, new: Sequence[NewFile]) -> list[Addition]:
        for file in new:
            if self.path(file.name).exists():
                raise UserError(
                    f"{self.path(file.name)} exists already; evidence is never edited: "
                    "delete it to repeat the measurement."
                )
        if len({file.name for file in new}) < len(new):
            raise UserError("two of the evidence files to write have one name; write each once.")
        for file in new:
            write_durably(self.staged_path(file.name), file.content)
        sync_folder(self._folder)
        return [(file.kind, {"name": file.name, "sha256": sha256(file.content)}) for file in new]

    def _settle(self, listed: Mapping[str, Listed]) -> None:
        """Finish what a crash left: listed files get their names, others are deleted."""
        for staged in list(self._staged()):
            name = staged.name.removeprefix(".").removesuffix(_STAGED_SUFFIX)
            known = listed.get(name)
            counts = known is not None and known.sha256 == sha256(staged.read_bytes())
            if counts and not self.path(name).exists():
                self._place(name)
            else:
                staged.unlink(missing_ok=True)

    def _place(self, name: str) -> None:
        path = self.path(name)
        try:
            self.staged_path(name).rename(path)
        except FileNotFoundError:
            if not path.exists():  # else the next writer came first and placed it
                raise

    def _staged(self) -> Iterator[Path]:
        for entry in os.scandir(self._folder):
            if entry.name.startswith(".") and entry.name.endswith(_STAGED_SUFFIX):
                yield Path(entry.path)

    def _present(self) -> frozenset[str]:
        return frozenset(path.stem for path in self._folder.glob(f"*{SUFFIX}"))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _latest(entries: Sequence[Entry]) -> dict[str, Listed]:
    found: dict[str, Listed] = {}
    for entry in entries:
        name = str(entry.body["name"])
        found.pop(name, None)
        if entry.kind == WITHDRAWN:
            continue
        found[name] = Listed(entry.kind, str(entry.body["sha256"]))
    return found
