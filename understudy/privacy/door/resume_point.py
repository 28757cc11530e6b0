"""Where a method stands: what it was given, what it staged, and what the door keeps for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from weakref import ref

import torch

from understudy.errors import PrivacyError
from understudy.privacy.ledger.checkpoint import Checkpoint
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.state import State


class Sealed(Protocol):
    """What the door keeps with a method's state and no method can read: models of shards."""

    def sealed_state(self) -> State | None:
        """All that it needs to go on, or None where it can begin anew."""
        ...

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
        self._sealed: list[tuple[str, ref[Sealed]]] = []
        self._waiting: dict[str, State] = {}

    def left_to_give(self, mechanism: str) -> int:
        """How many committed outputs of earlier processes this one has not been given."""
        return max(0, self._journal.outputs_kept(mechanism) - self._given[mechanism])

    def next_output(self, mechanism: str) -> torch.Tensor:
        """The first committed output that is left to give."""
        kept = self._journal.output(mechanism, self._given[mechanism])
        assert kept is not None
        self._given[mechanism] += 1
        return kept.tensors["output"]

    def give(self, mechanism: str) -> None:
        """A new output was committed and goes to the method now."""
        self._given[mechanism] += 1

    def stage(self, snapshot: Callable[[], State]) -> None:
        self._snapshot = snapshot

    def checkpoint(self) -> Checkpoint:
        """The staged state as it is now, with what belongs to it. What was restored and has not
        been created again stays with it."""
        sealed = dict(self._waiting)
        for name, one in self._living():
            state = one.sealed_state()
            if state is None:
                continue
            if name in sealed:
                raise PrivacyError(
                    f"two ensembles in rounds are named {name!r}; give each a name of its own."
                )
            sealed[name] = state
        return Checkpoint(self._snapshot(), dict(self._given), sealed)

    def restore(self) -> State | None:
        """The method's state to go on from; what it had seen is not given again."""
        found = self._journal.checkpoint()
        if found is None:
            return None
        for mechanism, seen in found.seen.items():
            self._given[mechanism] = max(self._given[mechanism], seen)
        self._waiting = dict(found.sealed)
        for name, one in self._living():
            self._unseal(name, one)
        return found.method

    def seal(self, name: str, one: Sealed) -> bool:
        """Keep `one` with every state from now on; whether it got back what was restored."""
        self._sealed.append((name, ref(one)))
        return self._unseal(name, one)

    def _unseal(self, name: str, one: Sealed) -> bool:
        if name not in self._waiting:
            return False
        one.unseal(self._waiting.pop(name))
        return True

    def _living(self) -> list[tuple[str, Sealed]]:
        """What the method still holds; the door keeps no ensemble alive."""
        found = [(name, one()) for name, one in self._sealed]
        return [(name, one) for name, one in found if one is not None]
