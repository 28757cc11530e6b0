"""A team stopped between releases goes on together: one state, the same outputs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import torch

from tests.privacy.rig import pixels, plan, records
from tests.privacy.team.teams import run_processes
from understudy.privacy.door.door import Door
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.state import State
from understudy.privacy.ledger.story import spent_uses
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import NoisySum
from understudy.privacy.plan.plan import Plan
from understudy.privacy.team.doors import FollowingDoor, LeadingDoor
from understudy.privacy.team.team import Team

SUMS = NoisySum("rounds", clip=1.0, sigma=2.0, releases=3)
DATA, COUNTS = {"train": records(9)}, {"train": 9}


def member(folder: Path, asked: int, kept_after: int) -> None:
    """Ask for so many sums beyond the restored state; keep a state after one of them."""
    team = Team.join(torch.device("cpu"))
    door: Door | FollowingDoor
    if team.leads:
        journal = _journal(folder)
        leading = LeadingDoor(journal, NoiseSource())
        team.text(json.dumps(leading.plan.to_json()))
        private, door = leading.lead(team, DATA, COUNTS)["train"], leading
    else:
        planned = Plan.from_json(json.loads(team.text()))
        door = FollowingDoor(planned, team, NoiseSource(), torch.device("cpu"))
        private = door.handles(DATA, COUNTS)["train"]
    state = door.restore()
    done = 0 if state is None else int(state.values["done"])
    outputs = []
    for number in range(done, done + asked):
        outputs.append(private.noisy_sum(pixels, clip=1.0, sigma=2.0).tolist())
        if isinstance(door, Door) and number + 1 == kept_after:
            door.checkpoint(partial(State, {}, {"done": number + 1}))
    (folder / f"rank-{team.rank}.json").write_text(json.dumps([done, outputs]))


def _journal(folder: Path) -> Journal:
    if (folder / "ledger.jsonl").exists():
        return Journal.open(folder)
    return Journal.create(folder, plan(SUMS), {})


def run(folder: Path, asked: int, kept_after: int) -> list[tuple[int, list[list[float]]]]:
    assert run_processes(2, member, folder, asked, kept_after) == [0, 0]
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


def test_all_processes_go_on_from_the_state_that_was_kept(tmp_path: Path) -> None:
    (first, others) = run(tmp_path, 2, kept_after=1)
    assert first == others
    (again, others) = run(tmp_path, 2, kept_after=0)
    assert again == others, "the processes were given other outputs"
    done, outputs = again
    assert done == 1
    assert outputs[0] == first[1][1], "what the state had not seen was not given back"
    assert outputs[1] not in first[1]
    assert spent_uses(read_ledger(tmp_path / "ledger.jsonl")) == {"rounds": 3}
