"""Where a method stands: what it was given, what it staged, and what the door keeps for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from understudy.errors import PrivacyError
from understudy.privacy.ledger.checkpoint import Checkpoint
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.state import State


class Sealed(Protocol):
    """What the door keeps with a method's state and no method can read: models of shards."""

    def sealed_state(self) -> State: ...

    def unseal(self, state: State) -> None: ...


class ResumePoint:
    """The outputs that a method was given in this process, and the state that it staged.

    Guarantee: a committed output is given to a process at most once. After `restore` those that
    the restored state had seen are not given again; all later ones are, in their order.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._given = {m.name: 0 for m in journal.plan.mechanisms}
        self._snapshot: Callable[[], State] = State
        self._sealed: dict[str, Sealed] = {}
        self._restored: Checkpoint | None = None

    def left_to_give(self, mechanism: str) -> int:
        """How many committed outputs of earlier processes this one has not been given."""
        return max(0, self._journal.outputs_kept(mechanism) - self._given[mechanism])

    def next_output(self, mechanism: str) -> torch.Tensor | None:
        kept = self._journal.output(mechanism, self._given[mechanism])
        if kept is None:
            return None
        self._given[mechanism] += 1
        return kept.tensors["output"]

    def give(self, mechanism: str) -> None:
        """A new output was committed and goes to the method now."""
        self._given[mechanism] += 1

    def stage(self, snapshot: Callable[[], State]) -> None:
        self._snapshot = snapshot

    def checkpoint(self) -> Checkpoint:
        """The staged state as it is now, with what belongs to it."""
        sealed = {key: one.sealed_state() for key, one in self._sealed.items()}
        return Checkpoint(self._snapshot(), dict(self._given), sealed)

    def restore(self) -> State | None:
        """The method's state to go on from; what it had seen is not given again."""
        found = self._restored = self._journal.checkpoint()
        if found is None:
            return None
        for mechanism, seen in found.seen.items():
            self._given[mechanism] = max(self._given[mechanism], seen)
        for key, one in self._sealed.items():
            self._unseal(key, one)
        return found.method

    def seal(self, key: str, one: Sealed) -> bool:
        """Keep `one` with every state from now on; whether it got back what was restored."""
        if key in self._sealed:
            raise PrivacyError(f"two ensembles in rounds are named {key!r}; names must differ.")
        self._sealed[key] = one
        return self._unseal(key, one)

    def _unseal(self, key: str, one: Sealed) -> bool:
        if self._restored is None or key not in self._restored.sealed:
            return False
        one.unseal(self._restored.sealed[key])
        return True
