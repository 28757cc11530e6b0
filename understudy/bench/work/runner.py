"""The runner: brings every cell of a suite as far as it goes, through an executor.

It keeps nothing that the workspace does not tell: killed at any moment, the next start looks
at the files and goes on. Two runners on one workspace share the work: a cell that another
process holds is left to it, and taken up only if it is not done when that ends.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from understudy.bench.suite.cell import Suite
from understudy.bench.suite.method_lookup import Lookup
from understudy.bench.work import worker
from understudy.bench.work.cell_folder import BusyError
from understudy.bench.work.executors.base import Ended, Executor, Job
from understudy.bench.work.forecast import forecast_gigabytes
from understudy.bench.work.live import RowView, Show
from understudy.bench.work.task import CellTask, read_progress, task_of
from understudy.bench.work.workspace import Standing, State, Workspace
from understudy.privacy.ledger.account_book import books_folder
from understudy.progress import Silent

MOST_DEATHS = 3
"""A worker that dies so often on one cell will die again: the cell has failed."""

_LOOK_EVERY = 0.2
_BUSY_PAUSE = 1.0
_CLOSED = (State.DONE, State.AWAY)


@dataclass(frozen=True)
class Outcome:
    """How every cell of a suite stands at the end of a start."""

    standings: tuple[Standing, ...]

    def count(self, state: State) -> int:
        return sum(standing.state is state for standing in self.standings)

    @property
    def ok(self) -> bool:
        """Whether no cell failed or is left over; those on another machine are not ours."""
        return all(standing.state in _CLOSED for standing in self.standings)


@dataclass
class _Row:
    """One cell during one start."""

    standing: Standing
    task: CellTask
    gigabytes: float
    deaths: int = 0
    not_before: float = 0.0
    began: float | None = None
    seconds: float = 0.0

    def view(self) -> RowView:
        said = read_progress(self.task) if self.began is not None else {}
        running = 0.0 if self.began is None else time.monotonic() - self.began
        return RowView(
            title=self.standing.cell.title,
            state="running" if self.began is not None else str(self.standing.state),
            phase=str(said.get("phase", "")),
            note=str(said.get("note", "")),
            seconds=self.seconds + running,
            reason=self.standing.failure.words if self.standing.failure else "",
        )


@dataclass
class Runner:
    """One start of a suite."""

    workspace: Workspace
    executor: Executor
    show: Show
    rows: list[_Row]
    open: list[_Row] = field(default_factory=list)
    running: dict[str, _Row] = field(default_factory=dict)

    def run(self) -> None:
        """Until nothing is open; on Ctrl-C workers stop at a good moment, then it goes on up."""
        try:
            while self.open or self.running:
                for ended in self.executor.poll():
                    self._take(ended)
                self._start()
                self.show.refresh([row.view() for row in self.rows])
                time.sleep(_LOOK_EVERY)
        finally:
            for ended in self.executor.stop():
                self._settle(self.running.pop(ended.name))

    def _start(self) -> None:
        """Submit what there is room for; never two cells of one fit at a time."""
        for row in list(self.open):
            job = _job(row)
            if time.monotonic() < row.not_before or self._fit_is_running(row):
                continue
            if not self.executor.has_room(job):
                return
            if row.task.folder.is_busy():
                row.not_before = time.monotonic() + _BUSY_PAUSE
                continue
            row.task.write()
            row.began = time.monotonic()
            self.executor.submit(job)
            self.open.remove(row)
            self.running[job.name] = row
            self.show.changed(row.view())

    def _fit_is_running(self, row: _Row) -> bool:
        return any(r.standing.keys.fit == row.standing.keys.fit for r in self.running.values())

    def _take(self, ended: Ended) -> None:
        """Note how a worker ended; what the files say counts, not its exit code."""
        row = self.running.pop(ended.name)
        self._settle(row)
        if row.standing.state in (State.DONE, State.FAILED):
            self.show.changed(row.view())
            return
        if ended.code == worker.BUSY:
            row.not_before = time.monotonic() + _BUSY_PAUSE
        else:
            row.deaths += 1
        if row.deaths < MOST_DEATHS:
            self.open.append(row)
        else:
            self._give_up(row, ended.code)
        self.show.changed(row.view())

    def _settle(self, row: _Row) -> None:
        if row.began is not None:
            row.seconds += time.monotonic() - row.began
            row.began = None
        old = row.standing
        row.standing = self.workspace.looked_at(old.cell, old.keys, old.source)

    def _give_up(self, row: _Row, code: int) -> None:
        """The worker could not say why it failed, so it is said for it."""
        phase = (*row.standing.open_phases, "evaluate")[0]
        kind, words = _how_it_died(code, row.task)
        try:
            with row.task.folder.locked():
                worker.fail(row.task.work(Silent()), row.task.evidence, phase, kind, words)
        except BusyError:
            self.open.append(row)
            return
        self._settle(row)


def run_suite(
    suite: Suite,
    workspace: Workspace,
    executor: Executor,
    show: Show,
    *,
    home: Path | None = None,
    retry_failed: bool = False,
    command: str = "",
) -> Outcome:
    """Run what is not done of a suite. What failed before is tried again only if asked."""
    lookup = Lookup()
    standings = workspace.survey(suite.cells)
    rows = [
        _Row(
            standing,
            task_of(
                standing,
                evidence=workspace.evidence,
                suite=suite.name,
                command=command or f"understudy bench run {suite.name}",
                home=home,
            ),
            forecast_gigabytes(standing.cell, lookup) if _is_open(standing, retry_failed) else 0.0,
        )
        for standing in standings
    ]
    todo = [row for row in rows if _is_open(row.standing, retry_failed)]
    # The longest wait is for what is begun already: its plan is spent, so it goes first.
    todo.sort(key=lambda row: row.standing.state is State.WAITING)
    for row in todo:
        row.standing.folder.set_failures_aside(row.standing.keys)
    runner = Runner(workspace, executor, show, rows, todo)
    try:
        if todo:
            _check_places(workspace, home)
            runner.run()
    finally:
        show.close([row.view() for row in rows])
    return Outcome(tuple(row.standing for row in rows))


def survey_suite(
    suite: Suite, workspace: Workspace, retry_failed: bool
) -> tuple[tuple[Standing, bool], ...]:
    """Where every cell stands, and whether a start would work on it; starts nothing."""
    standings = workspace.survey(suite.cells)
    return tuple((standing, _is_open(standing, retry_failed)) for standing in standings)


def _check_places(workspace: Workspace, home: Path | None) -> None:
    """What cannot be written to is refused now, and not by every cell after its fit."""
    workspace.evidence.mkdir(parents=True, exist_ok=True)
    books_folder(home)


def _is_open(standing: Standing, retry_failed: bool) -> bool:
    if standing.state is State.FAILED:
        return retry_failed
    return standing.state not in _CLOSED


def _job(row: _Row) -> Job:
    task = row.task
    wants_gpu = not row.standing.cell.device.startswith("cpu")
    return Job(str(task.path), task.path, task.log, row.gigabytes, wants_gpu)


def _how_it_died(code: int, task: CellTask) -> tuple[str, str]:
    if code == -signal.SIGKILL:
        return "Killed", f"the worker was killed {MOST_DEATHS} times; perhaps memory ran out"
    if code < 0:
        name = signal.Signals(-code).name
        return "Killed", f"the worker was ended by {name} {MOST_DEATHS} times"
    return "Died", f"the worker ended with code {code}; see {task.log.name} in its cell's folder"
