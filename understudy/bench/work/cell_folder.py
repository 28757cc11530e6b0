"""The folder of one fit: its run, what was sampled from it, what was measured, what failed.

`run/` is an ordinary run folder. A phase is done for a key exactly if its record is there,
which is written last; so every question about a cell is answered by looking at files.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from understudy.bench.work.phase_keys import Keys
from understudy.run.folder import RunFolder

Phase = Literal["fit", "sample", "evaluate"]
PHASES: tuple[Phase, ...] = ("fit", "sample", "evaluate")
SHORT = 16
"""Digits of a key that name a folder."""

PACKED = "packed.json"
"""In a run folder: its plan was given to another machine."""

AWAY_RECORD = "away.json"
"""Beside samples that another machine made: what that took, there."""


FIGURES = "figures.json"
"""In an evaluation: figures of classifiers that another machine trained for it."""

CLASSIFY_RECORD = "classify.json"
"""Beside them once they were used: what that training took, there."""


class BusyError(Exception):
    """Another process works in this folder."""


@dataclass(frozen=True)
class Failure:
    """Why a phase did not end. `kind` is the error's class; the words are the owner's."""

    phase: str
    key: str
    kind: str
    words: str


@dataclass(frozen=True)
class CellFolder:
    """Paths and small files of one cell; several cells share it if they share their fit."""

    path: Path

    @property
    def run(self) -> RunFolder:
        return RunFolder(self.path / "run")

    def sampled(self, keys: Keys) -> RunFolder:
        """Where the samples of this key lie, and the claim about them."""
        return RunFolder(self.path / "sampled" / keys.sample[:SHORT])

    def evaluated(self, keys: Keys) -> RunFolder:
        return RunFolder(self.path / "evaluated" / keys.evaluate[:SHORT])

    @property
    def references(self) -> Path:
        """What is shared by all cells of this workspace: classifiers of real records."""
        return self.path.parent.parent / "references"

    def record(self, phase: Phase, keys: Keys) -> dict[str, Any] | None:
        """What a finished phase took, or None while it is not finished for this key."""
        path = self._record_folder(phase, keys).path / f"{phase}.json"
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text())
        return found if found["key"] == getattr(keys, phase) else None

    def write_record(self, phase: Phase, keys: Keys, record: Mapping[str, Any]) -> None:
        self._record_folder(phase, keys).write_json(f"{phase}.json", dict(record))

    def write_cell(self, cell: Mapping[str, Any], keys: Keys) -> None:
        """What this folder is for, so that a person or `bench status` can tell."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"cell-{keys.evaluate[:SHORT]}.json"
        if not (self.path / name).exists():
            RunFolder(self.path).write_json(name, {"cell": dict(cell), "keys": asdict(keys)})

    def cells(self) -> Iterator[dict[str, Any]]:
        for path in sorted(self.path.glob("cell-*.json")):
            yield json.loads(path.read_text())

    def failure(self, keys: Keys) -> Failure | None:
        """The last failure of the phase that is to be done next, for the present keys.

        Where all are done and evidence is still missing, writing it failed: that counts as
        the last phase's.
        """
        phase = next((p for p in PHASES if self.record(p, keys) is None), PHASES[-1])
        found = self._failures(phase, getattr(keys, phase))
        return Failure(**json.loads(found[-1].read_text())) if found else None

    def write_failure(self, failure: Failure) -> None:
        room = RunFolder(self.path / "failures")
        room.path.mkdir(exist_ok=True, mode=0o700)
        number = len(self._failures(failure.phase, failure.key, "json*"))
        name = f"{failure.phase}-{failure.key[:SHORT]}-{number:04d}.json"
        room.write_json(name, asdict(failure))

    def set_failures_aside(self, keys: Keys) -> None:
        """It is tried again: earlier failures are kept, and no longer say how it stands."""
        for phase in PHASES:
            for path in self._failures(phase, getattr(keys, phase)):
                path.rename(path.with_suffix(".json-tried-again"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Work here alone; the kernel gives the lock back when the process dies."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise BusyError(f"another process works in {self.path}") from error
            yield
        finally:
            os.close(handle)

    def is_busy(self) -> bool:
        if not (self.path / ".lock").exists():
            return False
        try:
            with self.locked():
                return False
        except BusyError:
            return True

    def _record_folder(self, phase: Phase, keys: Keys) -> RunFolder:
        if phase == "fit":
            return RunFolder(self.path)
        return self.sampled(keys) if phase == "sample" else self.evaluated(keys)

    def _failures(self, phase: str, key: str, ending: str = "json") -> list[Path]:
        return sorted((self.path / "failures").glob(f"{phase}-{key[:SHORT]}-*.{ending}"))
