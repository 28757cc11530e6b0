"""Cells so small that they say nothing, and executors that start no interpreter for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.workplace import Workplace
from understudy.bench.suite.cell import Cell, Suite
from understudy.bench.work import worker
from understudy.bench.work.cell_folder import PHASES
from understudy.bench.work.executors.base import Ended, Job
from understudy.bench.work.live import RowView
from understudy.bench.work.runner import Outcome, run_suite
from understudy.bench.work.workspace import Workspace
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import ledger_plan, spent_uses

MERF = ("batch=12", "features=40", "features_per_step=20", "latent=4", "steps=3", "width=16")
GAN = (
    *("batch=8", "discriminator_features=8", "discriminator_width=4", "fake_batch=8"),
    *("generator_batch=8", "latent=4", "steps=70", "steps_per_generator=7", "width=8"),
)
"""70 steps are two blocks of DP-SGD."""

LIMIT = 60


def cell(place: Workplace, method: str = "dp-merf", **changes: Any) -> Cell:
    """A run of a moment on a few digits."""
    plain: dict[str, Any] = {
        "settings": MERF if method == "dp-merf" else GAN,
        "protocol": place.quick_protocol(),
        "limit": LIMIT,
        "samples": 30,
    }
    return Cell(
        method, changes.pop("dataset", "digits"), changes.pop("epsilon", 1.0), **plain | changes
    )


def suite_file(place: Workplace, *cells: Cell) -> Path:
    """The same cells as a person would write them down."""
    grid = []
    for one in cells:
        settings = dict(change.split("=") for change in one.settings)
        grid.append(
            {
                **{k: getattr(one, k) for k in ("method", "dataset", "epsilon", "protocol")},
                **{k: getattr(one, k) for k in ("limit", "samples", "seed")},
                **({} if one.label is None else {"label": one.label}),
                "settings": {k: int(v) for k, v in settings.items()},
            }
        )
    path = place / "small.yaml"
    path.write_text(yaml.safe_dump({"grid": grid}))
    return path


@dataclass
class Inline:
    """Works every task off at once, in this process."""

    jobs: int | None = None
    ended: list[Ended] = field(default_factory=list)
    started: list[str] = field(default_factory=list)

    def has_room(self, job: Job) -> bool:
        del job
        return True

    def submit(self, job: Job) -> None:
        self.started.append(job.name)
        self.ended.append(Ended(job.name, worker.main(job.task)))

    def poll(self) -> Sequence[Ended]:
        found, self.ended = self.ended, []
        return found

    def stop(self) -> Sequence[Ended]:
        return self.poll()


@dataclass
class Watching:
    """Keeps every change that would be shown."""

    changes: list[RowView] = field(default_factory=list)
    closed: bool = False

    def changed(self, row: RowView) -> None:
        self.changes.append(row)

    def refresh(self, rows: Sequence[RowView]) -> None:
        del rows

    def close(self, rows: Sequence[RowView]) -> None:
        del rows
        self.closed = True


def run_all(
    place: Workplace, *cells: Cell, executor: Any = None, retry_failed: bool = False
) -> tuple[Outcome, Any, Watching]:
    """Run these cells in the workplace's workspace."""
    executor, show = executor or Inline(), Watching()
    outcome = run_suite(
        Suite("small", tuple(cells)),
        Workspace(place / "bench"),
        executor,
        show,
        home=place.home,
        retry_failed=retry_failed,
    )
    return outcome, executor, show


def check_whole(place: Workplace, cells: int) -> None:
    """Every run is there exactly once: one ledger, one plan, one entry, one file of evidence."""
    folders = sorted((place / "bench/cells").iterdir())
    assert len(folders) == cells
    plans = []
    for folder in folders:
        entries = read_ledger(folder / "run/ledger.jsonl")
        assert [e.kind for e in entries].count("plan") == 1
        assert entries[-1].kind == "close"
        plan = ledger_plan(entries)
        assert spent_uses(entries) == {m.name: m.uses for m in plan.mechanisms}
        plans.append(plan.to_json())
        for phase in PHASES:
            assert len(list(folder.rglob(f"{phase}.json"))) == 1, phase
    entered = [body["plan"] for body in place.book("enter")]
    assert sorted(p["ident"] for p in entered) == sorted(p["ident"] for p in plans)
    files = [p for p in (place / "bench/evidence").iterdir() if p.suffix == ".json"]
    assert len(files) == cells
    hidden = [p.name for p in (place / "bench/evidence").iterdir() if p.name.startswith(".")]
    assert hidden == []


def children_of(pid: int) -> list[int]:
    """Processes that a process has started and that still run."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def kill(pid: int, signal: int) -> None:
    try:
        os.kill(pid, signal)
    except ProcessLookupError:
        return
