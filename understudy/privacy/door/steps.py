"""The steps of a planned mechanism, which the ledger reserves and commits in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from understudy.privacy.plan.mechanisms import Stepwise
from understudy.progress import bar_of_steps

if TYPE_CHECKING:
    from understudy.privacy.door.door import Door

S = TypeVar("S", bound=Stepwise)

MOST_STEPS = 50
"""How many steps the ledger reserves and commits together, if they are quick."""

_BLOCK_SECONDS = 30.0
"""Longest block of steps, so that a kill repeats little."""


def steps_in_block(most: int, seconds_a_step: float) -> int:
    """How many steps to commit together. The time must be that of a step on random data: private
    steps take longer the more records they sample, and the ledger shows how many steps a block has.
    """
    return max(1, int(min(most, _BLOCK_SECONDS / max(seconds_a_step, 1e-9))))


class Steps(Generic[S]):
    """What sessions have in common: which step comes next, and how many were committed.

    After each step the caller calls `context.checkpoint`. After a restart `steps_done` counts the
    steps that were committed.
    """

    def __init__(self, door: Door, mechanism: S) -> None:
        self.mechanism = mechanism
        self._door = door

    @property
    def steps_done(self) -> int:
        return self._door.spent(self.mechanism)

    def steps(self, description: str = "training") -> Iterator[int]:
        """The numbers of the steps that are left; the bar moves when a block is committed."""
        progress, planned = self._door.progress, self.mechanism
        with bar_of_steps(progress, planned.name, description, planned.steps) as bar:
            bar.advance(self.steps_done)
            self._door.on_commit(bar.advance)
            try:
                while (number := self._door.next_step(planned)) is not None:
                    yield number
            finally:
                self._door.on_commit(None)
