"""The doors of a team: the first process has ledger and noise, the others get what it releases.

A method runs in every process and sees one interface. The first process's door broadcasts every
output; the other doors have the same records and no ledger: their clipped sums go into the first
one's, and their methods get what it released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import torch

from understudy.data.records import Records
from understudy.errors import PrivacyError
from understudy.privacy.door.door import Door
from understudy.privacy.door.handles import make_handles
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.ledger.owner_log import OwnerLog
from understudy.privacy.ledger.state import State
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import Mechanism, Stepwise
from understudy.privacy.plan.plan import Plan
from understudy.privacy.sums.grid import Grid
from understudy.privacy.team.summation import TeamSummation
from understudy.privacy.team.team import Team
from understudy.progress import Progress, Silent

OVER, STOPPED = -1, -2
"""Broadcast in place of a step's number: no step is left, or the first process was interrupted."""

_OUTPUT = "output"
_TRIED_EVERY = 50


class LeadingDoor(Door):
    """The first process's door: it broadcasts its outputs, and the number of the next step."""

    team: Team = Team()

    def lead(
        self, team: Team, parts: Mapping[str, Records], counts: Mapping[str, int]
    ) -> dict[str, PrivateRecords]:
        """Handles to all records; in DP-SGD every process samples its own shard of them."""
        self.team = team
        for mechanism in self.plan.mechanisms:
            team.number(self.spent(mechanism))
        self._tell_what_is_left()
        return make_handles(self, parts, counts, dict.fromkeys(parts, TeamSummation(team)))

    def next_step(self, mechanism: Stepwise) -> int | None:
        number = super().next_step(mechanism)
        self.team.number(OVER if number is None else number)
        return number

    def restore(self) -> State | None:
        """As alone; the others' methods then have the same state and get the same outputs."""
        state = super().restore()
        self.team.state(state)
        self._tell_what_is_left()
        return state

    def _tell_what_is_left(self) -> None:
        for mechanism in self.plan.mechanisms:
            self.team.number(self.resume_point.left_to_give(mechanism.name))

    def _told(self, output: torch.Tensor) -> torch.Tensor:
        self.team.tensors({_OUTPUT: output})
        return output


class FollowingDoor:
    """The door of every other process. It has no ledger, and its random stream never becomes noise.

    Guarantee: this process sends to the processes of its run clipped sums before noise, the owner's
    figures of them and digests of records, and nothing else; it receives what the first process
    released. The processes, their machines and connections are trusted as the owner's machine is.
    """

    def __init__(self, plan: Plan, team: Team, noise: NoiseSource, device: torch.device) -> None:
        self.plan, self.noise, self.device = plan, noise, device
        self.progress: Progress = Silent()
        self.owner_log = OwnerLog(None)
        self.shard_key = b""
        self._team = team
        self._spent = {mechanism.name: team.number() for mechanism in plan.mechanisms}
        self._kept = self._hear_what_is_left()
        self._since_trial: dict[str, int] = {}

    def handles(
        self, parts: Mapping[str, Records], counts: Mapping[str, int]
    ) -> dict[str, PrivateRecords]:
        # This door lacks the leader's ledger and noise, which no method can reach.
        return make_handles(
            cast(Door, self), parts, counts, dict.fromkeys(parts, TeamSummation(self._team))
        )

    def spent(self, mechanism: Mechanism) -> int:
        return self._spent[mechanism.name]

    def wants(self, mechanism: Mechanism) -> bool:
        left = self._kept[mechanism.name] or self.spent(mechanism) < mechanism.uses
        return bool(left) or mechanism.is_session

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
        noise: float | Grid,
    ) -> torch.Tensor:
        """The first process's output; this process computes nothing."""
        del exact, noise
        self._spent[mechanism.name] += uses
        return self._team.tensors()[_OUTPUT]

    def restore(self) -> State | None:
        """The first process's state; of its outputs this process gets those that it gives again."""
        state = self._team.state()
        self._kept = self._hear_what_is_left()
        return state

    def _hear_what_is_left(self) -> dict[str, int]:
        return {mechanism.name: self._team.number() for mechanism in self.plan.mechanisms}

    def next_step(self, mechanism: Stepwise) -> int | None:
        """The number of the first process's next step."""
        del mechanism
        number = self._team.number()
        if number == STOPPED:
            raise KeyboardInterrupt
        return None if number == OVER else number

    def needs_block(self, mechanism: Mechanism) -> bool:
        """Whether to repeat the trials of loss and models; the first process alone has blocks."""
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

    def release_step(self, total: torch.Tensor, planned: Stepwise, divisor: float) -> torch.Tensor:
        """Zeros: `TeamSummation.after_step` replaces them by the first process's output."""
        del divisor
        self._spent[planned.name] += 1
        return torch.zeros_like(total, dtype=torch.float32)

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """No handling here: an exception ends this process, and `torchrun` stops the others."""
        yield

    def on_commit(self, tell: Callable[[int], None] | None) -> None:
        del tell

    def reveal(self, mechanism: Mechanism) -> None:
        del mechanism
        raise PrivacyError("records are revealed by one process alone.")
