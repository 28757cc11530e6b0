"""One process of a team: takes two steps and writes the weights it ends with.

    torchrun --nproc-per-node 2 -m tests.privacy.team.team_target FOLDER

Alone without torchrun's variables. Who joins is written down by unit, and noise is a constant
that would show if it were added twice.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from tests.privacy.rig import classify, mlp, open_door, records
from understudy.data.records import Records
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.state import State
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.team.sessions import FollowingSession, LeadingSession
from understudy.privacy.team.team import Team

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


def session_of(data: Records, team: Team, folder: Path) -> LeadingSession | FollowingSession:
    if team.leads:
        door = open_door(folder / "run", PLANNED, noise=Written(team))
        return LeadingSession(door, PLANNED, FAST, data, UNITS, team)
    return FollowingSession(PLANNED, FAST, data, UNITS, team, Written(team))


def main(folder: Path) -> None:
    team = Team.join(torch.device("cpu"))
    session = session_of(records(UNITS), team, folder)
    model = mlp(seed=team.rank)  # the first one's weights go round
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in session.steps():
        session.step([model], classify)
        optimiser.step()
        if isinstance(session, LeadingSession):
            session._door.checkpoint(State)
    found = {name: value.detach().numpy() for name, value in model.named_parameters()}
    np.savez(folder / f"rank-{team.rank}.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
