"""A task: what one worker is to do, as a file, so that any kind of executor can start it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from understudy.bench.suite.cell import Cell
from understudy.bench.work.cell_folder import SHORT, CellFolder
from understudy.bench.work.phase_keys import Keys
from understudy.bench.work.phases import Work
from understudy.bench.work.source_version import Source
from understudy.bench.work.workspace import Standing, cell_from_json, cell_to_json
from understudy.progress import Progress
from understudy.run.folder import RunFolder


@dataclass(frozen=True)
class CellTask:
    """All that a worker needs to know of one cell; `path` is where that is written."""

    path: Path
    cell: Cell
    keys: Keys
    source: Source
    evidence: Path
    suite: str
    command: str
    home: Path | None

    @property
    def folder(self) -> CellFolder:
        return CellFolder(self.path.parent)

    @property
    def progress_file(self) -> Path:
        return self.path.with_name(f"progress-{self.keys.evaluate[:SHORT]}.json")

    @property
    def log(self) -> Path:
        return self.path.with_name(f"worker-{self.keys.evaluate[:SHORT]}.log")

    def work(self, progress: Progress) -> Work:
        return Work(
            self.cell,
            self.keys,
            self.source,
            self.folder,
            self.suite,
            self.command,
            self.home,
            progress,
        )

    def write(self) -> None:
        self.folder.write_cell(cell_to_json(self.cell), self.keys)
        content = {
            "cell": cell_to_json(self.cell),
            "keys": asdict(self.keys),
            "source": asdict(self.source),
            "evidence": str(self.evidence.resolve()),
            "suite": self.suite,
            "command": self.command,
            "home": None if self.home is None else str(self.home.resolve()),
        }
        RunFolder(self.path.parent).write_json(self.path.name, content)

    @staticmethod
    def read(path: Path) -> CellTask:
        data = json.loads(path.read_text())
        return CellTask(
            path=path,
            cell=cell_from_json(data["cell"]),
            keys=Keys(**data["keys"]),
            source=Source(**data["source"]),
            evidence=Path(data["evidence"]),
            suite=data["suite"],
            command=data["command"],
            home=None if data["home"] is None else Path(data["home"]),
        )


def task_of(
    standing: Standing, *, evidence: Path, suite: str, command: str, home: Path | None
) -> CellTask:
    name = f"task-{standing.keys.evaluate[:SHORT]}.json"
    return CellTask(
        standing.folder.path / name,
        standing.cell,
        standing.keys,
        standing.source,
        evidence,
        suite,
        command,
        home,
    )


def read_progress(task: CellTask) -> Mapping[str, Any]:
    """What a worker last said of itself: its phase, and how far it is."""
    with suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads(task.progress_file.read_text())
        return found
    return {}
