"""The door: everything that can be done with private records, and nothing else.

A `Door` belongs to one run and one plan. It hands out `PrivateRecords` handles whose
operations are private mechanisms; each reserves its place in the ledger before noise is
drawn and is committed with what it gave out. The threat model is a mistaken author, not
a malicious one: Python cannot hide memory from a program that goes looking for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from understudy.data.records import Records
from understudy.errors import PrivacyError
from understudy.privacy.interrupts import DeferredInterrupt
from understudy.privacy.journal import Journal
from understudy.privacy.mechanisms import DPSGD, Mechanism, Reveal
from understudy.privacy.noise import NoiseSource
from understudy.privacy.owner_log import OwnerLog
from understudy.privacy.plan import Plan
from understudy.privacy.private_records import PrivateRecords
from understudy.privacy.state import State
from understudy.privacy.tape import Tape
from understudy.progress import Progress, Silent

_BLOCK_SECONDS = 30.0
"""A block of steps is kept at the latest after this long, so that little is run again."""


class Door:
    """One run's way to its private records."""

    def __init__(
        self,
        journal: Journal,
        noise: NoiseSource,
        *,
        device: torch.device | str = "cpu",
        progress: Progress | None = None,
        owner_log: OwnerLog | None = None,
        shard_key: bytes = b"",
        tape: Tape | None = None,
    ) -> None:
        self.noise = noise
        self.device = torch.device(device)
        self.progress = progress or Silent()
        self.owner_log = owner_log or OwnerLog(None)
        self.shard_key = shard_key
        self._journal = journal
        self._tape = tape
        self._interrupt = DeferredInterrupt()
        self._done_in_block = 0
        self._block_began = 0.0
        self._marked = True
        self._broken = False
        self._lost = False
        self._on_commit: Callable[[int], None] | None = None
        self._given: dict[str, int] = {}
        self._snapshot: Callable[[], State] = State

    @property
    def plan(self) -> Plan:
        return self._journal.plan

    @property
    def scratch(self) -> Path:
        return self._journal.scratch

    def handles(
        self, parts: Mapping[str, Records], counts: Mapping[str, int]
    ) -> dict[str, PrivateRecords]:
        """One handle per part, with its declared count of units."""
        return {
            name: PrivateRecords(self, name, part, counts[name]) for name, part in parts.items()
        }

    def spent(self, mechanism: Mechanism) -> int:
        """Committed uses, and those of the block in progress."""
        reserve = self._journal.ledger.open_block
        spent = self._journal.spent(mechanism.name)
        if reserve is None or reserve.body["mechanism"] != mechanism.name:
            return spent
        return spent - int(reserve.body["uses"]) + self._done_in_block

    def wants(self, mechanism: Mechanism) -> bool:
        """Whether the plan still has uses of it, or a kept output to give back."""
        given = self._given.get(mechanism.name, 0)
        kept = self._journal.output(mechanism.name, given) is not None
        return kept or self.spent(mechanism) < mechanism.uses or isinstance(mechanism, DPSGD)

    def reveal(self, mechanism: Reveal) -> None:
        """Record that raw records leave; the first time is charged, and that is all."""
        if self.spent(mechanism):
            return
        self.settle()
        self._begin(mechanism, 1)
        self._done_in_block = 1
        self._commit(None, None)

    def release(
        self,
        mechanism: Mechanism,
        uses: int,
        exact: Callable[[], torch.Tensor],
        deviation: float,
    ) -> torch.Tensor:
        """Do one whole release: reserve, compute, add noise, commit with its output.

        Guarantee: what comes back is `exact()` plus independent Gaussian noise of standard
        deviation `deviation` on every coordinate; the caller answers for the sensitivity of
        `exact` that makes this the mechanism's event. After a restart a committed release
        gives back what it gave then; it is neither computed nor charged again.
        """
        kept = self._next_kept(mechanism)
        if kept is not None:
            return self._through(kept)
        self.settle()
        self._begin(mechanism, uses)
        with self.breaking():
            value = exact()
        self._done_in_block = uses
        output = self.noised(value, deviation).float().cpu()
        self._commit(State(tensors={"output": output}), None)
        self._given[mechanism.name] += 1
        self._interrupt.raise_if_pending()
        return self._through(output)

    def noised(self, value: torch.Tensor, deviation: float) -> torch.Tensor:
        """`value` plus Gaussian noise, in float64: the one place where noise is added."""
        return value.double() + deviation * self.noise.normal(
            value.shape, value.device, torch.float64
        )

    def begin_step(self, mechanism: Mechanism, block: int) -> None:
        """Make sure that a reserved block covers the next step."""
        self._refuse_if_broken()
        if not self._marked:
            raise PrivacyError(
                "call context.checkpoint(...) after every step, where the state is consistent."
            )
        reserve = self._journal.ledger.open_block
        if reserve is not None and reserve.body["mechanism"] != mechanism.name:
            self.settle()
            reserve = None
        if reserve is None:
            left = mechanism.uses - self._journal.spent(mechanism.name)
            self._begin(mechanism, min(block, left) if left > 0 else 1)

    def end_step(self, output: torch.Tensor) -> torch.Tensor:
        """Count a step whose noise is drawn; it waits for the method's next checkpoint."""
        self._done_in_block += 1
        self._marked = False
        return self._through(output)

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """Work on private records: if it raises, the door stays shut in this process.

        Whether a callback fails may depend on the records, so a method that catches the
        error must not learn anything more.
        """
        finished = False
        try:
            yield
            finished = True
        finally:
            if not finished:
                self._broken = True
                self.abandon()

    def on_commit(self, tell: Callable[[int], None] | None) -> None:
        """Who is told how many steps a committed block held (a progress bar)."""
        self._on_commit = tell

    def checkpoint(self, snapshot: Callable[[], State]) -> None:
        """Stage a point to go on from; commit the block here if it is due."""
        self._marked = True
        reserve = self._journal.ledger.open_block
        if reserve is None or not self._done_in_block:
            self._interrupt.raise_if_pending()
            return
        full = self._done_in_block >= reserve.body["uses"]
        due = time.monotonic() - self._block_began > _BLOCK_SECONDS
        self._snapshot = snapshot
        if full or due or self._interrupt.pending:
            self._commit(None, snapshot())
            self._interrupt.raise_if_pending()

    def restore(self) -> State | None:
        return self._journal.method_state()

    def settle(self) -> None:
        """Commit what is open, at the last staged point."""
        self._refuse_if_broken()
        if self._journal.ledger.open_block is None:
            return
        if not self._marked:
            raise PrivacyError("call context.checkpoint(...) after the last step.")
        self._commit(None, self._snapshot())

    def abandon(self) -> None:
        """After an exception: charge the steps whose noise was drawn, keep no new state."""
        if self._lost or self._journal.ledger.open_block is None:
            self._interrupt.end()
        elif self._done_in_block:
            self._commit(None, None)
        else:
            self._void()

    def _begin(self, mechanism: Mechanism, uses: int) -> None:
        self._refuse_if_broken()
        self._interrupt.begin()
        self._journal.reserve(mechanism.name, uses)
        self._done_in_block = 0
        self._block_began = time.monotonic()

    def _commit(self, outputs: State | None, method: State | None) -> None:
        with self._or_lost():
            self._journal.commit(self._done_in_block, outputs, method)
        self.owner_log.keep()
        self._interrupt.end()
        if self._on_commit is not None:
            self._on_commit(self._done_in_block)
        self._done_in_block = 0

    @contextmanager
    def _or_lost(self) -> Iterator[None]:
        """Keeping a block; if that fails (a full disk), this process counts as dead.

        Nothing of the block was shown, and the next start settles it: it keeps the block
        if its folder is complete, and voids it otherwise.
        """
        finished = False
        try:
            yield
            finished = True
        finally:
            if not finished:
                self._broken = self._lost = True
                self._interrupt.end()

    def _void(self) -> None:
        self._journal.ledger.void()
        self.owner_log.drop()
        self._interrupt.end()

    def _refuse_if_broken(self) -> None:
        if self._broken:
            raise PrivacyError("a callback on private records failed; start the run again.")

    def _next_kept(self, mechanism: Mechanism) -> torch.Tensor | None:
        """The committed output that this process has not yet given back, if any."""
        given = self._given.setdefault(mechanism.name, 0)
        kept = self._journal.output(mechanism.name, given)
        if kept is None:
            return None
        self._given[mechanism.name] = given + 1
        return kept.tensors["output"]

    def _through(self, output: torch.Tensor) -> torch.Tensor:
        return output if self._tape is None else self._tape.through(output)
