"""Fits on another machine: packed here, fitted where only torch is, collected here, once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bench.rig import cell, check_whole, run_all
from tests.workplace import Workplace
from understudy.bench.away import fit_jobs as away
from understudy.bench.away.collect import collect
from understudy.bench.away.job import FitJob
from understudy.bench.away.pack import Moved, pack, packed_facts, read_packed
from understudy.bench.away.packed_files import PackedFiles
from understudy.bench.evidence.provenance import Provenance
from understudy.bench.suite.cell import Cell
from understudy.bench.work.workspace import State, Workspace
from understudy.errors import PrivacyError, UserError
from understudy.privacy.ledger.ledger import read_ledger
from understudy.progress import Silent
from understudy.run.books import open_book
from understudy.run.folder import RunFolder
from understudy.run.prepare import prepare
from understudy.run.start import enter_and_execute, noise_of

ROOT = Path(__file__).parents[3]


def packed(place: Workplace, *cells: Cell) -> list[Moved]:
    return pack(cells, Workspace(place / "bench"), place / "job", place.home, Silent())


def collected(place: Workplace, source: str = "job") -> list[Moved]:
    return collect(place / source, Workspace(place / "bench"), place.home)


def states(place: Workplace, *cells: Cell) -> list[State]:
    return [s.state for s in Workspace(place / "bench").survey(cells)]


def test_a_job_with_nothing_fitted_says_so(workplace: Workplace) -> None:
    packed(workplace, cell(workplace))
    said = workplace.run("bench", "collect", "job").succeeded().out
    assert said == "nothing is fitted there yet: nothing was taken.\n"


def test_there_and_back(workplace: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    mine = cell(workplace)
    assert [m.done for m in packed(workplace, mine)] == [True]
    assert states(workplace, mine) == [State.AWAY]
    (entry,) = workplace.book("enter")
    assert "packed for another machine as" in entry["facts"]
    _, executor, _ = run_all(workplace, mine)
    assert executor.started == [], "a cell that is away is not run here"
    assert [m.words for m in packed(workplace, mine)] == ["is away here, so it stays"]
    job, result = str(workplace / "job"), str(workplace / "out/result")
    assert away.main([job, "--phases", "fit,sample", "--result", result]) == away.OK
    assert ": done" in capsys.readouterr().out
    assert Path(result).stat().st_mode & 0o777 == 0o700, "it holds losses and batch sizes"
    assert [m.done for m in collected(workplace, "out/result")] == [True]
    assert [m.words for m in collected(workplace, "out/result")] == ["is here already"]
    assert states(workplace, mine) == [State.FITTED]
    outcome, _, _ = run_all(workplace, mine)
    assert outcome.ok
    check_whole(workplace, cells=1)
    (path,) = (workplace / "bench/evidence").glob("*.json")
    phases = json.loads(path.read_text())["phases"]
    theirs = json.loads(next((workplace / "job").rglob("sample.json")).read_text())
    assert phases["sample"]["seconds"] == theirs["seconds"], "as the other machine measured it"


def test_a_packed_run_cannot_be_fitted_here(workplace: Workplace) -> None:
    """Not by a runner, and not past it: the account book knows that the plan left."""
    mine = cell(workplace)
    packed(workplace, mine)
    standing = Workspace(workplace / "bench").standing(mine)
    config = mine.run_config()
    prepared = prepare(config, workplace.home, Silent())
    book = open_book(config, workplace.home)
    with pytest.raises(PrivacyError, match="a plan is single-use"):
        enter_and_execute(prepared, standing.folder.run, book, noise_of(config), Silent())
    assert not standing.folder.run.ledger.exists()


def test_a_plan_that_was_fitted_twice_is_refused(workplace: Workplace) -> None:
    packed(workplace, cell(workplace))
    shutil.copytree(workplace / "job", workplace / "copy")
    for name in ("job", "copy"):
        assert away.main([str(workplace / name)]) == away.OK
    assert collected(workplace, "job")[0].done
    (kept,) = workplace.folder.glob("bench/cells/*/run/ledger.jsonl")
    before = kept.read_bytes()
    with pytest.raises(PrivacyError, match="this plan was fitted twice"):
        collected(workplace, "copy")
    assert kept.read_bytes() == before


def test_packing_that_was_cut_short_goes_on_in_its_folder_only(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job may lie there already: a second one elsewhere would be its plan twice."""
    mine, workspace = cell(workplace), Workspace(workplace / "bench")
    write = RunFolder.write_json

    def dies(self: RunFolder, name: str, value: Any) -> None:
        if name == "packed.json" and value["is_away"]:
            raise KeyboardInterrupt
        write(self, name, value)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_json", dies)
        with pytest.raises(KeyboardInterrupt):
            packed(workplace, mine)
    with pytest.raises(UserError, match="its plan is single-use; go on there"):
        pack([mine], workspace, workplace / "other", workplace.home, Silent())
    assert not list((workplace / "other").rglob("job.json"))
    assert [m.done for m in packed(workplace, mine)] == [True]


def test_all_cells_are_looked_at_before_any_is_packed(workplace: Workplace) -> None:
    """Half a job would hold private records, and cells that nobody can fit here."""
    mine, wrong = cell(workplace), cell(workplace, "dp-gan", settings=("batch=100000",))
    with pytest.raises(UserError, match=r"dp-gan .* cannot be packed: .*'batch' is 100000"):
        packed(workplace, mine, wrong)
    assert not (workplace / "job").exists()
    assert states(workplace, mine) == [State.WAITING]
    assert workplace.book("enter") == []


def test_a_cell_is_packed_by_how_it_stands_once_it_is_locked(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two packings at once, to two folders: the second finds that the first was there."""
    mine, workspace = cell(workplace), Workspace(workplace / "bench")
    early = workspace.survey([mine])
    packed(workplace, mine)
    monkeypatch.setattr(Workspace, "survey", lambda *_: early)
    moved = pack([mine], workspace, workplace / "other", workplace.home, Silent())
    assert [m.words for m in moved] == ["is away here, so it stays"]
    assert not list((workplace / "other").rglob("job.json"))
    with early[0].folder.locked():
        moved = pack([mine], workspace, workplace / "other", workplace.home, Silent())
    assert [m.words for m in moved] == ["is worked on here, so it stays"]


def test_a_copy_of_the_workspace_takes_no_second_fit(workplace: Workplace) -> None:
    packed(workplace, cell(workplace))
    shutil.copytree(workplace / "job", workplace / "job2")
    shutil.copytree(workplace / "bench", workplace / "bench2")
    for name in ("job", "job2"):
        assert away.main([str(workplace / name)]) == away.OK
    assert collected(workplace, "job")[0].done
    with pytest.raises(PrivacyError, match="a plan is single-use"):
        collect(workplace / "job2", Workspace(workplace / "bench2"), workplace.home)
    assert not list(workplace.folder.glob("bench2/cells/*/run/ledger.jsonl"))
    with pytest.raises(UserError, match="does not know the run"):
        collect(workplace / "job", Workspace(workplace / "bench"), workplace / "another home")


def test_half_a_result_does_not_bind_the_plan(workplace: Workplace) -> None:
    packed(workplace, cell(workplace))
    assert away.main([str(workplace / "job")]) == away.OK
    (run,) = workplace.folder.glob("job/cells/*/run")
    (run / "synthesizer").rename(run / "elsewhere")
    with pytest.raises(UserError, match="holds no synthesizer"):
        collected(workplace)
    (run / "elsewhere").rename(run / "synthesizer")
    assert collected(workplace)[0].done


def test_another_plan_an_open_ledger_and_an_edited_one_are_refused(workplace: Workplace) -> None:
    packed(workplace, cell(workplace))
    assert away.main([str(workplace / "job")]) == away.OK
    (ledger,) = workplace.folder.glob("job/cells/*/run/ledger.jsonl")
    whole = ledger.read_bytes()
    ledger.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    with pytest.raises(PrivacyError, match="not closed"):
        collected(workplace)
    ledger.write_bytes(whole.replace(b'"uses":1', b'"uses":2', 1))
    with pytest.raises(UserError, match="line"):
        collected(workplace)
    ledger.write_bytes(whole)
    elsewhere = Workplace(workplace / "elsewhere")
    elsewhere.folder.mkdir()
    packed(elsewhere, cell(elsewhere))
    with pytest.raises(UserError, match="not of this workspace"):
        collect(workplace / "job", Workspace(elsewhere / "bench"), elsewhere.home)
    (other,) = elsewhere.folder.glob("job/cells/*/")
    (mine,) = workplace.folder.glob("job/cells/*/run")
    assert away.main([str(elsewhere / "job")]) == away.OK
    shutil.copy(other / "run/ledger.jsonl", mine / "ledger.jsonl")
    with pytest.raises(PrivacyError, match="another plan"):
        collected(workplace)
    assert not list(workplace.folder.glob("bench/cells/*/run/ledger.jsonl"))


def test_what_is_not_finished_stays_away(workplace: Workplace) -> None:
    packed(workplace, cell(workplace, "dp-gan", settings=("steps=5000", "batch=8")))
    code = away.main([str(workplace / "job"), "--stop-after", "0.4"])
    assert code == away.UNFINISHED
    assert [m.done for m in collected(workplace)] in ([], [False])
    assert away.main([str(workplace / "nothing")]) == 2


@pytest.mark.parametrize("whose", ["code", "package"])
def test_other_code_than_was_packed_is_refused(
    workplace: Workplace, capsys: pytest.CaptureFixture[str], whose: str
) -> None:
    """The method's, and this package's: the door and the noise lie there."""
    packed(workplace, cell(workplace))
    (path,) = workplace.folder.glob("job/cells/*/job.json")
    path.write_text(path.read_text().replace(getattr(FitJob.read(path.parent), whose), "0" * 64))
    PackedFiles.open(workplace / "job").add_document(path)  # as if it had been packed so
    assert away.main([str(workplace / "job")]) == away.FAILED
    assert "is not that for which" in capsys.readouterr().out


def test_packing_that_was_cut_short_goes_on(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is made once, whatever happens before its job lies there whole."""
    mine = cell(workplace)

    def full(*_: object) -> None:
        raise OSError(28, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr("understudy.bench.away.pack.write_job_folder", full)
        with pytest.raises(OSError, match="no space"):
            packed(workplace, mine)
    assert states(workplace, mine) == [State.AWAY]
    folder = Workspace(workplace / "bench").standing(mine).folder
    assert not read_packed(folder).is_away
    assert [m.done for m in packed(workplace, mine)] == [True]
    (entry,) = workplace.book("enter")
    assert entry["facts"] == packed_facts(folder, read_packed(folder).token)
    assert FitJob.read(next((workplace / "job/cells").iterdir())).plan.ident == entry["run"]


@pytest.mark.slow
def test_killed_on_a_bare_machine_it_goes_on_from_its_journal(workplace: Workplace) -> None:
    mine = cell(workplace, "dp-gan")
    packed(workplace, mine)
    words = [sys.executable, "-m", "tests.bench.away.bare_away", str(workplace / "job")]
    words += ["--result", str(workplace / "result")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    first = subprocess.Popen(words, cwd=workplace.folder, env=environment)
    (folder,) = (workplace / "job/cells").iterdir()
    ledger = folder / "run/ledger.jsonl"
    end = time.monotonic() + 60
    while not (ledger.exists() and '"commit"' in ledger.read_text()):
        assert first.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < end
        time.sleep(0.005)
    first.send_signal(signal.SIGKILL)
    first.wait()
    killed_at = [e.hash for e in read_ledger(ledger)]
    done = subprocess.run(
        words, cwd=workplace.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    entries = read_ledger(ledger)
    assert [e.hash for e in entries][: len(killed_at)] == killed_at, "the same ledger went on"
    assert collected(workplace, "result")[0].done
    outcome, _, _ = run_all(workplace, mine)
    assert outcome.ok
    check_whole(workplace, cells=1)


def test_the_same_files_are_the_packed_commit_and_other_files_are_not(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy often lies in a repository that says something else, or in none."""
    packed(workplace, cell(workplace))
    (folder,) = (workplace / "job" / "cells").iterdir()
    job = replace(FitJob.read(folder), commit="f" * 40, dirty=False)
    elsewhere = Provenance("e" * 40, True, {}, {})
    monkeypatch.setattr(away.Provenance, "read", staticmethod(lambda: elsewhere))
    found = away.provenance_of(job)
    assert (found.commit, found.dirty) == ("f" * 40, False)
    assert away.provenance_of(replace(job, package="another")) == elsewhere


def test_only_the_cells_that_are_named_are_worked_on(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    packed(workplace, cell(workplace), cell(workplace, epsilon=2.0))
    job = str(workplace / "job")
    assert away.main([job, "--cells", "*-epsilon-2-*"]) == away.OK
    done = [path.parent.parent.name for path in (workplace / "job").rglob("fit.json")]
    assert len(done) == 1
    assert "-epsilon-2-" in done[0]
    assert away.main([job, "--cells", "epsilon"]) == 2
    assert "named like --cells epsilon" in capsys.readouterr().err
    assert away.main([job, "--cells", "epsilon", "--check"]) == 2, "nothing was looked at"
    assert "named like --cells epsilon" in capsys.readouterr().err
