"""One run fitted by several processes: what one would fit, charged once, stopped together."""

from __future__ import annotations

import inspect
import os
import re
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from tests import drawing
from tests.bench.rig import GAN, cell
from tests.privacy.rig import kinds
from tests.privacy.team.team_target import PLANNED
from tests.privacy.team.teams import run_processes
from tests.run.team_method import (
    COUNTED,
    FAILED,
    NO_FAULTS,
    UNFINISHED,
    Faults,
    fitting,
    member,
    odd_one_out,
    weights,
)
from tests.workplace import SMALL_GAN, Workplace
from understudy.bench.away import fit_jobs as away
from understudy.bench.away.collect import collect
from understudy.bench.away.pack import pack
from understudy.bench.work.workspace import Workspace
from understudy.errors import UserError
from understudy.privacy.door import private_records, steps
from understudy.privacy.door.door import Door
from understudy.privacy.dpsgd import session
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import spent_uses
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.team.doors import FollowingDoor
from understudy.privacy.team.team import Team
from understudy.progress import Silent
from understudy.run import start
from understudy.run.choosing import settle
from understudy.run.config import RunConfig
from understudy.run.team_worker import work_for_leader


@pytest.fixture(autouse=True)
def _not_under_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def spent(folder: Path) -> dict[str, int]:
    return spent_uses(read_ledger(folder / "run" / "ledger.jsonl"))


def test_two_processes_fit_what_one_fits(tmp_path: Path) -> None:
    """The same units join; noise would show if each process added its own."""
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    assert member(one) == 0
    assert run_processes(2, member, two) == [0, 0]
    alone, together = weights(one), weights(two)
    for name in alone:
        scale = np.linalg.norm(alone[name])
        assert np.linalg.norm(together[name] - alone[name]) <= 1e-6 * scale, "another fit"
    assert kinds(one / "run") == kinds(two / "run")
    assert spent(two) == {COUNTED.name: 1, PLANNED.name: PLANNED.steps}


def test_asked_to_stop_all_stop_and_go_on_later(tmp_path: Path) -> None:
    """Whichever process is asked first: only the first one's own interrupt counts."""
    folder = made(tmp_path / "two")
    assert run_processes(2, member, folder, Faults(0, 0, "asked")) == [UNFINISHED] * 2
    assert spent(folder) == {COUNTED.name: 1, PLANNED.name: 1}
    assert run_processes(2, member, folder, Faults(1, 1, "asked"), False) == [0, 0]
    assert spent(folder) == {COUNTED.name: 1, PLANNED.name: PLANNED.steps}
    assert kinds(folder / "run")[-1] == "close"
    assert run_processes(2, member, folder) == [0, 0], "what is fitted is not fitted again"


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_dies_stops_all_and_the_run_goes_on_later(tmp_path: Path, rank: int) -> None:
    folder = made(tmp_path / "two")
    first, second = run_processes(2, member, folder, Faults(rank, 1, "killed"), False)
    assert first != 0
    assert second != 0
    assert not (folder / "run" / "synthesizer").exists()
    assert run_processes(2, member, folder, NO_FAULTS, False) == [0, 0]
    assert spent(folder) == {COUNTED.name: 1, PLANNED.name: PLANNED.steps}
    assert kinds(folder / "run")[-1] == "close"


def test_a_process_with_other_records_is_refused(tmp_path: Path) -> None:
    """Shards of different records could overlap."""
    folder = made(tmp_path / "two")
    assert 0 not in run_processes(2, odd_one_out, folder)
    assert "process 1 of 2 has other records of part 'train'" in (folder / "said").read_text()
    assert spent(folder).get(PLANNED.name, 0) == 0


def test_the_first_process_does_not_follow() -> None:
    with pytest.raises(UserError, match="has the run"):
        work_for_leader(fitting(NO_FAULTS), Team())


def test_the_others_door_has_all_that_handles_and_sessions_ask_for() -> None:
    """Handles are of one class in every process, so a method does not notice in which it runs."""
    asked: set[str] = set()
    for module in (private_records, session, steps):
        asked |= set(re.findall(r"\b_?door\.(\w+)\(", inspect.getsource(module)))
    assert {"release", "begin_step", "release_step", "next_step", "needs_block"} <= asked
    for name in asked - {"noised"}:
        mine, theirs = getattr(Door, name), getattr(FollowingDoor, name)
        assert list(inspect.signature(mine).parameters) == list(
            inspect.signature(theirs).parameters
        ), name


def test_a_callback_that_fails_in_any_process_ends_the_run(tmp_path: Path) -> None:
    """One that fails in a process without a ledger too."""
    folder = made(tmp_path / "two")
    assert run_processes(2, member, folder, Faults(1, 0, "callback")) == [FAILED] * 2
    assert kinds(folder / "run")[-1] == "fail"
    assert "in another process" in (folder / "said-0").read_text()
    assert "private record" in (folder / "said-1").read_text()


def test_a_packed_job_is_fitted_by_two_processes(workplace: Workplace) -> None:
    mine = cell(workplace, "dp-gan", settings=(*GAN, "steps=6"))
    workspace = Workspace(workplace / "bench")
    pack([mine], workspace, workplace / "job", workplace.home, Silent())
    words = [str(workplace / "job"), "--phases", "fit,sample"]
    words += ["--device", "cpu", "--result", str(workplace / "result")]
    assert run_processes(2, away.main, words) == [away.OK] * 2
    assert [m.done for m in collect(workplace / "result", workspace, workplace.home)] == [True]


def test_a_release_is_made_by_two_processes(workplace: Workplace) -> None:
    """The first has the book, the run folder and the words; the second leaves nothing."""
    drawing.class_folder(workplace / "photos", count=40)
    small = (*SMALL_GAN, "--set", "steps=4", "--device", "cpu")
    words = ("synthesize", "photos", *small, "--epsilon", "1", "-o", "out")
    assert run_processes(2, _in_process, workplace, words) == [0, 0]
    assert workplace.run("verify", "out").succeeded()
    assert len(workplace.book("enter")) == 1
    said = [(workplace / f"said-{rank}").read_text() for rank in range(2)]
    assert "release   out" in said[0]
    assert said[1] == ""


def _in_process(place: Workplace, words: tuple[str, ...]) -> int:
    told = place.run(*words)
    (place / f"said-{os.environ['RANK']}").write_text(told.out)
    return told.code


def test_every_process_draws_from_a_secret_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who joins in a follower is as secret as in the first: its stream is no public seed's. And
    it tries no settings, which might come out otherwise than those of the first."""
    monkeypatch.setattr(settle, "quick_trial", mock.Mock(side_effect=AssertionError("tried")))
    drawn: list[NoiseSource] = []
    monkeypatch.setattr(start, "work_for_leader", lambda _, __, noise: drawn.append(noise))
    monkeypatch.setattr(Team, "number", lambda *_: 0)
    config = RunConfig("digits", "dp-gan", 10.0, delta=1e-3, time=1.0)
    seeded = replace(config, insecure_noise_seed=3)
    for asked in (config, config, seeded):
        start.execute_along(asked, Team(1, 2, torch.device("cpu")))
    assert [noise.insecure_seed is None for noise in drawn] == [True, True, False], "no secret"
    values = [noise.uniform(8).tolist() for noise in (*drawn, start.noise_of(seeded))]
    assert len({tuple(value) for value in values}) == 4
