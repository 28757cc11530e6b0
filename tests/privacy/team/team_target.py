"""One process of a team: takes two steps and writes the weights it ends with.

    torchrun --nproc-per-node 2 -m tests.privacy.team.team_target FOLDER

Alone without torchrun's variables. Who joins is written down by unit, and noise is a constant
that would show if it were added twice.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from tests.privacy.rig import classify, mlp, open_door, plan, records
from understudy.privacy.door.door import Door
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.state import State
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.plan.plan import Plan
from understudy.privacy.team.doors import FollowingDoor, LeadingDoor
from understudy.privacy.team.team import Team

CPU = torch.device("cpu")
UNITS, STEPS = 23, 2
PLANNED = DPSGD("sgd", steps=STEPS, rate=0.5, clip=0.3, sigma=1.0)
FAST = Speed(backend="expanded", micro_batch=4)


class Written(NoiseSource):
    """Units join as a list says, read at the places of one shard; noise is one everywhere."""

    def __init__(self, team: Team) -> None:
        super().__init__()
        self._team = team
        self._joins = iter(np.random.default_rng(5).random((STEPS, UNITS)) < PLANNED.rate)

    def normal(
        self,
        shape: int | Sequence[int],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> torch.Tensor:
        return torch.ones(shape, device=device, dtype=dtype)

    def bernoulli(
        self, count: int, rate: float, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        del device
        assert rate == PLANNED.rate, "units join at another rate than was charged"
        mine = next(self._joins)[self._team.rank :: self._team.size]
        assert len(mine) == count
        return torch.from_numpy(mine.copy())


def door_of(team: Team, folder: Path) -> Door:
    if team.alone:
        return open_door(folder / "run", PLANNED, noise=Written(team))
    (folder / "run").mkdir()
    return LeadingDoor(Journal.create(folder / "run", plan(PLANNED), {}), Written(team))


def main(folder: Path) -> None:
    team = Team.join(CPU)
    parts, counts = {"train": records(UNITS)}, {"train": UNITS}
    door: Door | None = None
    if team.leads:
        door = door_of(team, folder)
        planned = Plan.from_json(json.loads(team.text(json.dumps(door.plan.to_json()))))
        leads = isinstance(door, LeadingDoor)
        handles = door.lead(team, parts, counts) if leads else door.handles(parts, counts)
    else:
        planned = Plan.from_json(json.loads(team.text()))
        handles = FollowingDoor(planned, team, Written(team), CPU).handles(parts, counts)
    model = mlp(seed=team.rank)  # the first one's weights go round
    session = handles["train"].dp_sgd(planned, [model], classify, speed=FAST)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in session.steps():
        session.step()
        optimiser.step()
        if door is not None:
            door.checkpoint(State)
    found = {name: value.detach().numpy() for name, value in model.named_parameters()}
    np.savez(folder / f"rank-{team.rank}.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
