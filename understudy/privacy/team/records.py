"""Handles to private records where several processes fit one run.

A method runs in every process and sees one interface. The first process's handle is the run's:
it has the door. The others' handles hold the same records and no door: what they compute from
them goes into the first one's sums, and what their methods get is what it released.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

import torch

from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.errors import PrivacyError, UserError
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.door import Door
from understudy.privacy.door.ensemble import Ensemble, Train
from understudy.privacy.door.private_records import PrivateRecords, Vectors
from understudy.privacy.dpsgd.session import DPSGDSession
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.plan.plan import Plan
from understudy.privacy.team.sessions import FollowingSession, LeadingSession
from understudy.privacy.team.team import Team

_OUTPUT = "output"


def leading_handles(
    door: Door, parts: Mapping[str, Records], counts: Mapping[str, int], team: Team
) -> dict[str, PrivateRecords]:
    """The first process's handles: those of its door, telling the others what was released."""
    checked = door.handles(parts, counts)
    return {
        name: LeadingRecords(door, name, parts[name], handle.count, team)
        for name, handle in checked.items()
    }


class LeadingRecords(PrivateRecords):
    """The first process's handle.

    Guarantee: that of `PrivateRecords`, operation by operation. Sums over all units are made
    here alone, from all records, and only their released values are told to the others; the
    steps of DP-SGD are `LeadingSession`'s.
    """

    def __init__(self, door: Door, part: str, records: Records, count: int, team: Team) -> None:
        super().__init__(door, part, records, count)
        self._team = team

    def noisy_sum(
        self, vector_of: Callable[[Batch], Vectors], clip: float, sigma: float
    ) -> torch.Tensor:
        return self._told(super().noisy_sum(vector_of, clip, sigma))

    def noisy_histogram(
        self, bin_of: Callable[[Batch], torch.Tensor], bins: int, sigma: float
    ) -> torch.Tensor:
        return self._told(super().noisy_histogram(bin_of, bins, sigma))

    def dp_sgd(
        self, plan: Plan, speed: Speed | None = None, name: str | None = None
    ) -> DPSGDSession:
        mechanism = super().dp_sgd(plan, speed, name).mechanism
        session = LeadingSession(
            self._door, mechanism, speed or Speed(), self._records, self.count, self._team
        )
        self._team.number(plan.mechanisms.index(mechanism))
        self._team.number(session.steps_done)
        return session

    def map(self, fn: Callable[[torch.Tensor], torch.Tensor]) -> PrivateRecords:
        del fn
        _refuse("mapped records")

    def ensemble(self, shards: int, train: Train) -> Ensemble:
        del shards, train
        _refuse("an ensemble")

    def transform(self, fn: Callable[[Records], Records], reason: str) -> Records:
        del fn, reason
        _refuse("a record-by-record release")

    def reveal(self, reason: str) -> Records:
        del reason
        _refuse("revealed records")

    def _told(self, released: torch.Tensor) -> torch.Tensor:
        self._team.tensors({_OUTPUT: released})
        return released


class FollowingRecords:
    """The handle of every other process: what `PrivateRecords` offers, without a door.

    Guarantee: nothing leaves it but summands of clipped sums, before noise, and digests of
    records, to the processes of the same run; what it gives to a method is what the first
    process released. These processes, their machines and what connects them are trusted as
    the owner's machine is.
    """

    def __init__(
        self,
        plan: Plan,
        part: str,
        records: Records,
        count: int,
        team: Team,
        noise: NoiseSource | None = None,
    ) -> None:
        self.part, self.count = part, count
        self._plan, self._records, self._team, self._noise = plan, records, team, noise

    @property
    def schema(self) -> Schema:
        return self._records.schema

    @property
    def shape(self) -> tuple[int, ...]:
        return self._records.shape

    def __len__(self) -> NoReturn:
        raise PrivacyError("the realised number of records is private; use .count.")

    def __iter__(self) -> NoReturn:
        raise PrivacyError("records stay behind the door; use a mechanism.")

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("a handle to private records cannot be copied or saved.")

    def noisy_sum(
        self, vector_of: Callable[[Batch], Vectors], clip: float, sigma: float
    ) -> torch.Tensor:
        """What the first process released; nothing is computed here."""
        del vector_of, clip, sigma
        return self._team.tensors()[_OUTPUT]

    def noisy_histogram(
        self, bin_of: Callable[[Batch], torch.Tensor], bins: int, sigma: float
    ) -> torch.Tensor:
        """What the first process released; nothing is computed here."""
        del bin_of, bins, sigma
        return self._team.tensors()[_OUTPUT]

    def dp_sgd(
        self, plan: Plan, speed: Speed | None = None, name: str | None = None
    ) -> FollowingSession:
        """The steps of the mechanism that the first process begins or goes on with."""
        del name
        if plan.ident != self._plan.ident:
            raise PrivacyError("this plan is not the run's plan; use the plan given to fit.")
        mechanism = plan.mechanisms[self._team.number()]
        assert isinstance(mechanism, DPSGD)
        done = self._team.number()
        return FollowingSession(
            mechanism, speed or Speed(), self._records, self.count, self._team, self._noise, done
        )

    def map(self, fn: Callable[[torch.Tensor], torch.Tensor]) -> NoReturn:
        del fn
        _refuse("mapped records")

    def ensemble(self, shards: int, train: Train) -> NoReturn:
        del shards, train
        _refuse("an ensemble")

    def transform(self, fn: Callable[[Records], Records], reason: str) -> NoReturn:
        del fn, reason
        _refuse("a record-by-record release")

    def reveal(self, reason: str) -> NoReturn:
        del reason
        _refuse("revealed records")


def _refuse(what: str) -> NoReturn:
    raise UserError(f"a method with {what} is fitted by one process; start it without torchrun.")
