"""The runner: failures are rows, deaths are retried, busy cells are left to their worker."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.bench.rig import Inline, Watching, cell, check_whole, run_all, suite_file
from tests.workplace import Workplace
from understudy.bench.evidence.evidence import RunEvidence
from understudy.bench.suite.cell import Cell
from understudy.bench.work import worker
from understudy.bench.work.executors.base import Ended, Job
from understudy.bench.work.live import Lines, LiveTable, RowView, clock, table_of
from understudy.bench.work.workspace import State, Workspace
from understudy.errors import UserError


@dataclass
class Dying(Inline):
    """Workers that die, with these codes, before one lives."""

    codes: list[int] = field(default_factory=list)

    def submit(self, job: Job) -> None:
        if self.codes:
            self.started.append(job.name)
            self.ended.append(Ended(job.name, self.codes.pop(0)))
        else:
            super().submit(job)


def bad(place: Workplace) -> Cell:
    return cell(place, dataset=str(place / "nothing-here"))


def rows(place: Workplace, status: str) -> list[dict[str, object]]:
    found = [json.loads(p.read_text()) for p in (place / "bench/evidence").glob("*.json")]
    return [row for row in found if row["status"] == status]


def test_a_failure_is_a_row_and_the_others_go_on(workplace: Workplace) -> None:
    outcome, _, show = run_all(workplace, bad(workplace), cell(workplace))
    assert not outcome.ok
    assert [s.state for s in outcome.standings] == [State.FAILED, State.DONE]
    failure = outcome.standings[0].failure
    assert failure is not None
    assert "nothing-here does not exist" in failure.words
    (row,) = rows(workplace, "failed")
    assert row["reason"] == "UserError", "the words stay with the owner: the data is not public"
    assert row["metrics"] is None
    assert show.closed


def test_a_failure_is_kept_and_tried_again_only_if_asked(workplace: Workplace) -> None:
    run_all(workplace, bad(workplace))
    _, executor, _ = run_all(workplace, bad(workplace))
    assert executor.started == []
    assert len(rows(workplace, "failed")) == 1
    outcome, executor, _ = run_all(workplace, bad(workplace), retry_failed=True)
    assert len(executor.started) == 1
    assert outcome.standings[0].state is State.FAILED
    assert len(rows(workplace, "failed")) == 2, "each failure is a row"
    kept = list((outcome.standings[0].folder.path / "failures").iterdir())
    assert len(kept) == 2


def test_a_failure_of_public_data_says_why(workplace: Workplace) -> None:
    wrong = cell(workplace, label="no-such-label")
    outcome, _, _ = run_all(workplace, wrong)
    (row,) = rows(workplace, "failed")
    assert "no-such-label" in str(row["reason"])
    assert outcome.standings[0].failure is not None


def test_evidence_that_cannot_be_written_is_a_failure_too(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.bench.work import phases

    real = phases.write_run_evidence

    def refuse_ok(folder: Path, evidence: RunEvidence) -> Path:
        if evidence.status == "ok":
            raise UserError("a place on the machine is named in it.")
        return real(folder, evidence)

    with monkeypatch.context() as patch:
        patch.setattr(phases, "write_run_evidence", refuse_ok)
        outcome, executor, _ = run_all(workplace, cell(workplace))
    assert outcome.standings[0].state is State.FAILED
    assert len(executor.started) == 1
    assert "a place on the machine" in str(rows(workplace, "failed")[0]["reason"])
    again, _, _ = run_all(workplace, cell(workplace), retry_failed=True)
    assert again.ok
    assert len(workplace.book("enter")) == 1


def test_a_dead_worker_is_started_again(workplace: Workplace) -> None:
    executor = Dying(codes=[-signal.SIGKILL, 1])
    outcome, _, _ = run_all(workplace, cell(workplace), executor=executor)
    assert outcome.ok
    assert len(executor.started) == 3
    check_whole(workplace, cells=1)


def test_a_worker_that_always_dies_is_a_failed_row_with_a_reason(workplace: Workplace) -> None:
    executor = Dying(codes=[-signal.SIGKILL] * 9)
    outcome, _, _ = run_all(workplace, cell(workplace), executor=executor)
    assert len(executor.started) == 3
    assert outcome.standings[0].state is State.FAILED
    (row,) = rows(workplace, "failed")
    assert "killed 3 times; perhaps memory ran out" in str(row["reason"])
    retried, _, _ = run_all(workplace, cell(workplace), retry_failed=True)
    assert retried.ok


def test_a_busy_cell_waits_and_is_not_a_death(workplace: Workplace) -> None:
    executor = Dying(codes=[worker.BUSY] * 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.bench.work.runner._BUSY_PAUSE", 0.0)
        outcome, _, _ = run_all(workplace, cell(workplace), executor=executor)
    assert outcome.ok
    assert len(executor.started) == 5


def test_a_worker_leaves_a_locked_cell_alone(workplace: Workplace) -> None:
    standing = Workspace(workplace / "bench").standing(cell(workplace))
    run_all(workplace, cell(workplace), executor=Dying(codes=[1, 1, 1]))
    (task,) = standing.folder.path.glob("task-*.json")
    with standing.folder.locked():
        assert standing.folder.is_busy()
        assert worker.main(task) == worker.BUSY
    assert not standing.folder.is_busy()
    assert not (standing.folder.path / "run").exists()


def test_two_cells_of_one_fit_never_run_at_a_time(workplace: Workplace) -> None:
    @dataclass
    class Slow(Inline):
        together: int = 0
        waiting: list[Job] = field(default_factory=list)

        def submit(self, job: Job) -> None:
            self.waiting.append(job)
            self.together = max(self.together, len(self.waiting))

        def poll(self) -> Sequence[Ended]:
            for job in self.waiting:
                super().submit(job)
            self.waiting = []
            return super().poll()

    executor = Slow()
    two = cell(workplace), cell(workplace, samples=20)
    outcome, _, _ = run_all(workplace, *two, executor=executor)
    assert outcome.ok
    assert executor.together == 1
    assert len(workplace.book("enter")) == 1


def test_ctrl_c_stops_the_executor_and_goes_on_up(workplace: Workplace) -> None:
    class Interrupted(Inline):
        stopped = False

        def submit(self, job: Job) -> None:
            del job
            raise KeyboardInterrupt

        def stop(self) -> Sequence[Ended]:
            self.stopped = True
            return []

    executor = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        run_all(workplace, cell(workplace), executor=executor)
    assert executor.stopped


def test_the_command_line(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.bench.work.executors.local.LocalExecutor", Inline)
    suite_file(workplace, cell(workplace))
    shown = workplace.run("bench", "run", "small.yaml", "--json").succeeded().json()
    assert shown["ok"]
    assert [c["state"] for c in shown["cells"]] == ["done"]
    status = workplace.run("bench", "status", "--json").succeeded().json()
    assert status["cells"] == shown["cells"]
    lines = workplace.run("bench", "status", "small.yaml").succeeded().out.splitlines()
    assert lines[1].split()[:6] == ["digits", "dp-merf", "epsilon", "1", "seed", "0"]
    assert lines[1].split()[-1] == "done"
    again = workplace.run("bench", "run", "small.yaml").succeeded()
    assert again.out == "1 done\n"
    suite_file(workplace, cell(workplace, label="no-such-label"))
    failed = workplace.run("bench", "run", "small.yaml", "--evidence", "elsewhere")
    assert failed.code == 1
    assert "no-such-label" in failed.out
    assert len(list((workplace / "elsewhere").glob("*-failed-1.json"))) == 1
    assert "--retry-failed" in failed.out
    lines = workplace.run("bench", "status").succeeded().out.splitlines()
    (at,) = [i for i, line in enumerate(lines) if line.endswith("failed")]
    assert lines[at + 1].startswith("    "), "the reason stands below its run"
    assert "no-such-label" in "".join(lines[at + 1 :])
    assert max(map(len, lines)) <= 100


def test_a_dry_run_shows_what_would_run_and_starts_nothing(workplace: Workplace) -> None:
    path = suite_file(workplace, cell(workplace), cell(workplace, seed=1))
    before = workplace.tree()
    said = workplace.run("bench", "run", path, "--dry-run").succeeded().out
    assert "run    digits dp-merf epsilon 1 seed 1  (waiting)" in said
    assert "2 of 2 cells would run. Nothing was started." in said
    found = workplace.run("bench", "run", path, "--dry-run", "--json").json()["cells"]
    assert [one["would_run"] for one in found] == [True, True]
    assert workplace.tree() == before


def test_bad_words_are_refused(workplace: Workplace) -> None:
    suite_file(workplace, cell(workplace))
    workplace.run("bench", "run", "small.yaml", "--jobs", "0").refused("--jobs")
    workplace.run("bench", "status").refused("--work")
    workplace.run("bench", "status", "--limit", "5").refused("--limit", "SUITE")
    workplace.run("bench", "collect", "nothing.tar").refused("nothing.tar")
    assert not (workplace / "bench").exists()


def test_what_people_see(capsys: pytest.CaptureFixture[str]) -> None:
    running = RowView("digits dp-gan", "running", "fit", "step 3/9", 75.0)
    failed = RowView("digits dp-merf", "failed", seconds=2.0, reason="no such file")
    show = Lines()
    show.changed(running)
    show.changed(failed)
    said = capsys.readouterr().err.splitlines()
    assert said == ["running   digits dp-gan", "failed    digits dp-merf (0:02; no such file)"]
    table = table_of([running, failed, *[RowView(f"c{i}", "done") for i in range(60)]])
    assert table.row_count == 40
    assert str(table.caption) == "1 running, 1 failed, 60 done"
    assert list(table.columns[2].cells)[:2] != []
    live = LiveTable()
    live.refresh([running])
    live.close([failed])
    assert "no such file" in capsys.readouterr().err
    assert clock(0.2) == ""
    assert Watching().closed is False


def test_places_that_cannot_be_written_are_refused_before_anything_runs(
    workplace: Workplace,
) -> None:
    suite_file(workplace, cell(workplace))
    (workplace / "a-file").write_text("")
    workplace.run("bench", "run", "small.yaml", "--evidence", "a-file").refused("a-file")
    workplace.run("bench", "run", "small.yaml", "--home", "a-file").refused("a-file/books")
    assert not (workplace / "bench/cells").exists()
    assert (workplace / "a-file").read_text() == ""
