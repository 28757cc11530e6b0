"""The doors of a team: the first process's, which tells the others, and theirs, which listen.

A method runs in every process and sees one interface. The first process's handles lead to its
ledger and its noise. Behind the others' handles lie the same records and no ledger: what they
compute from them goes into the first one's sums, and what their methods get is what it released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import torch

from understudy.data.records import Records
from understudy.errors import PrivacyError
from understudy.privacy.door.door import Door
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.ledger.owner_log import OwnerLog
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD, Mechanism
from understudy.privacy.plan.plan import Plan
from understudy.privacy.sums.grid import Grid
from understudy.privacy.team.summation import TeamSummation
from understudy.privacy.team.team import Team
from understudy.progress import Progress, Silent

OVER, STOPPED = -1, -2
"""Told instead of a step's number: there is none left; the first process was asked to stop."""

_OUTPUT = "output"
_TRIED_EVERY = 50


class LeadingDoor(Door):
    """The first process's door: it tells the others what leaves it, and which step comes next."""

    team: Team = Team()

    def lead(
        self, team: Team, parts: Mapping[str, Records], counts: Mapping[str, int]
    ) -> dict[str, PrivateRecords]:
        """Handles to all records, of which every process samples its shard."""
        self.team = team
        for mechanism in self.plan.mechanisms:
            team.number(self.spent(mechanism))
            team.number(self._journal.outputs_kept(mechanism.name))
        return self.handles(parts, counts, dict.fromkeys(parts, TeamSummation(team)))

    def next_step(self, mechanism: DPSGD) -> int | None:
        number = super().next_step(mechanism)
        self.team.number(OVER if number is None else number)
        return number

    def _told(self, output: torch.Tensor) -> torch.Tensor:
        self.team.tensors({_OUTPUT: output})
        return output


class FollowingDoor:
    """The door of every other process: no ledger and no noise of its own but for who joins.

    Guarantee: nothing leaves this process but summands of clipped sums, before noise, and digests
    of records, to the processes of the same run; what comes back is what the first process
    released. These processes, their machines and what connects them are trusted as the owner's
    machine is.
    """

    def __init__(self, plan: Plan, team: Team, noise: NoiseSource, device: torch.device) -> None:
        self.plan, self.noise, self.device = plan, noise, device
        self.progress: Progress = Silent()
        self.owner_log = OwnerLog(None)
        self.shard_key = b""
        self._team = team
        self._spent: dict[str, int] = {}
        self._kept: dict[str, int] = {}
        for mechanism in plan.mechanisms:
            self._spent[mechanism.name] = team.number()
            self._kept[mechanism.name] = team.number()
        self._since_trial: dict[str, int] = {}

    def handles(
        self, parts: Mapping[str, Records], counts: Mapping[str, int]
    ) -> dict[str, PrivateRecords]:
        summation = TeamSummation(self._team)
        # What this door lacks beside the first one's are ledger and noise, which no method reaches.
        door = cast(Door, self)
        return {
            name: PrivateRecords(door, name, records, counts[name], summation)
            for name, records in parts.items()
        }

    def spent(self, mechanism: Mechanism) -> int:
        return self._spent[mechanism.name]

    def wants(self, mechanism: Mechanism) -> bool:
        left = self._kept[mechanism.name] or self.spent(mechanism) < mechanism.uses
        return bool(left) or isinstance(mechanism, DPSGD)

    def kept_output(self, mechanism: Mechanism) -> torch.Tensor | None:
        if not self._kept[mechanism.name]:
            return None
        self._kept[mechanism.name] -= 1
        return self._team.tensors()[_OUTPUT]

    def release(
        self,
        mechanism: Mechanism,
        uses: int,
        exact: Callable[[], torch.Tensor],
        deviation: float,
    ) -> torch.Tensor:
        """What the first process released; nothing is computed here."""
        del exact, deviation
        self._spent[mechanism.name] += uses
        return self._team.tensors()[_OUTPUT]

    def release_on_grid(
        self, mechanism: Mechanism, steps: Callable[[], torch.Tensor], grid: Grid
    ) -> torch.Tensor:
        del grid
        return self.release(mechanism, 1, steps, 0.0)

    def next_step(self, mechanism: DPSGD) -> int | None:
        """The step that the first process takes next."""
        del mechanism
        number = self._team.number()
        if number == STOPPED:
            raise KeyboardInterrupt
        return None if number == OVER else number

    def needs_block(self, mechanism: Mechanism) -> bool:
        """Whether loss and models are to be tried again; blocks themselves are the first one's."""
        return self._since_trial.get(mechanism.name, _TRIED_EVERY) >= _TRIED_EVERY

    def begin_step(
        self, mechanism: Mechanism, block: int, before_commit: Callable[[], None]
    ) -> None:
        del block
        if self.needs_block(mechanism):
            before_commit()
            self.noise.rekey()
            self._since_trial[mechanism.name] = 0
        self._since_trial[mechanism.name] += 1

    def release_step(self, total: torch.Tensor, planned: DPSGD, divisor: float) -> torch.Tensor:
        """Nothing: `TeamSummation.after_step` brings the gradients that the first one released."""
        del divisor
        self._spent[planned.name] += 1
        return torch.zeros_like(total, dtype=torch.float32)

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """A process that fails ends; `torchrun` then stops the others, and the first one's run."""
        yield

    def on_commit(self, tell: Callable[[int], None] | None) -> None:
        del tell

    def reveal(self, mechanism: Mechanism) -> None:
        del mechanism
        raise PrivacyError("records are revealed by one process alone.")
