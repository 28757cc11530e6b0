"""A file of hash-chained entries that several processes may add to, one at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from understudy.durable import append_at, sync_folder
from understudy.errors import UserError
from understudy.privacy.ledger.entries import Entry, next_entry, parse_line

_REMEDY = "; restore the file from a copy"

Addition = tuple[str, Mapping[str, Any]]
"""The kind and body of an entry to come."""


class ChainedFile:
    """Append-only lines, each holding the hash of the one before.

    `what` names the file in errors. A last line without an end was being written when its
    process died; its writer never went on, so it does not count, and the next line takes
    its place.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self._what = f"{what} {path}"

    def read(self) -> tuple[Entry, ...]:
        """Every entry; an error names the line at which the chain breaks."""
        if not self.path.exists():
            return ()
        with self._locked(os.O_RDONLY, fcntl.LOCK_SH) as descriptor:
            return self._entries(descriptor)[0]

    @property
    def torn(self) -> bool:
        """Whether the file ends in the middle of a line: a crash, or somebody cut it."""
        content = self.path.read_bytes() if self.path.exists() else b""
        return bool(content) and not content.endswith(b"\n")

    def append(self, decide: Callable[[Sequence[Entry]], Sequence[Addition]]) -> None:
        """Add what `decide` makes of the entries so far, in one locked, flushed step.

        On the disk when this returns. If the disk refuses, the file stays as it was.
        """
        with self._locked(os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) as descriptor:
            entries, end = self._entries(descriptor)
            chain = list(entries)
            for kind, body in decide(entries):
                chain.append(next_entry(chain, kind, body))
            lines = b"".join(entry.line() for entry in chain[len(entries) :])
            if lines:
                self._write(descriptor, end, lines)

    @contextmanager
    def _locked(self, flags: int, lock: int) -> Iterator[int]:
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise UserError(f"cannot open the {self._what}: {error.strerror}.") from error
        try:
            fcntl.flock(descriptor, lock)
            yield descriptor
        finally:
            os.close(descriptor)

    def _entries(self, descriptor: int) -> tuple[tuple[Entry, ...], int]:
        """The entries, and where the last whole line ends."""
        content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        *lines, torn = content.split(b"\n")
        entries: list[Entry] = []
        for number, line in enumerate(lines, start=1):
            place = f"{self._what}, line {number}"
            entries.append(parse_line(line + b"\n", entries, place, _REMEDY))
        return tuple(entries), len(content) - len(torn)

    def _write(self, descriptor: int, end: int, lines: bytes) -> None:
        try:
            append_at(descriptor, lines, end)
            sync_folder(self.path.parent)
        except OSError as error:
            raise UserError(f"cannot write the {self._what}: {error.strerror}.") from error
