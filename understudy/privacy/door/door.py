"""The door: the only access of a method to private records.

A `Door` belongs to one run and one plan. It makes `PrivateRecords` handles, whose operations are
private mechanisms: each reserves its uses in the ledger before noise is drawn, and commits them
together with its output. The threat model is a mistaken author, not a malicious one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from understudy.data.records import Records
from understudy.errors import PrivacyError, RunFailed
from understudy.privacy.door.handles import make_handles
from understudy.privacy.door.interrupts import NO_FAILURE_OF_A_CALLBACK, DeferredInterrupt
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.door.replay_tape import Tape
from understudy.privacy.door.resume_point import ResumePoint
from understudy.privacy.ledger.checkpoint import Checkpoint
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.owner_log import OwnerLog
from understudy.privacy.ledger.state import State
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import Mechanism, Reveal, Stepwise
from understudy.privacy.plan.plan import Plan
from understudy.privacy.sums.grid import NOISE_STEPS, Grid
from understudy.progress import Progress, Silent

_STOPPED = "work on private records was stopped; resume the run."
_FAILED = "a callback failed on private records; start a new run."
_NOT_SAVED = "the last block of work could not be saved; resume the run."


class Door:
    """One run's access to its private records: plan, ledger and noise in one place."""

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
        self._marked = True
        self._shut: str | None = None
        self._on_commit: Callable[[int], None] | None = None
        self.resume_point = ResumePoint(journal)
        self._in_callback = False
        self._before_commit: Callable[[], None] | None = None

    @property
    def plan(self) -> Plan:
        return self._journal.plan

    @property
    def scratch(self) -> Path:
        return self._journal.scratch

    def handles(
        self, parts: Mapping[str, Records], counts: Mapping[str, int]
    ) -> dict[str, PrivateRecords]:
        """See `make_handles`; all sums are this process's alone."""
        return make_handles(self, parts, counts, {})

    def spent(self, mechanism: Mechanism) -> int:
        """How many uses are committed, or done in the block in progress."""
        reserve = self._journal.ledger.open_block
        spent = self._journal.spent(mechanism.name)
        if reserve is None or reserve.body["mechanism"] != mechanism.name:
            return spent
        return spent - int(reserve.body["uses"]) + self._done_in_block

    def wants(self, mechanism: Mechanism) -> bool:
        """Whether the plan has uses of a mechanism left, or a committed output to return again."""
        self._refuse_if_shut()
        kept = self.resume_point.left_to_give(mechanism.name) > 0
        return kept or self.spent(mechanism) < mechanism.uses or mechanism.is_session

    def reveal(self, mechanism: Reveal) -> None:
        """Record in the ledger that raw records leave; only the first call is charged."""
        if self.spent(mechanism):
            return
        self.settle()
        self._begin(mechanism, 1)
        self._commit(1, None, None)
        self._interrupt.raise_if_pending()

    def kept_output(self, mechanism: Mechanism) -> torch.Tensor | None:
        """The next committed output of an earlier process that this one has not returned yet."""
        if not self.resume_point.left_to_give(mechanism.name):
            return None
        self.settle()  # the staged state has not seen it
        return self._told(self._through(self.resume_point.next_output(mechanism.name)))

    def release(
        self,
        mechanism: Mechanism,
        uses: int,
        exact: Callable[[], torch.Tensor],
        noise: float | Grid,
    ) -> torch.Tensor:
        """One whole release: reserve, compute, add noise, commit with the output.

        Guarantee: where `noise` is a number, the result is `exact()` plus independent Gaussian
        noise of that standard deviation on every coordinate. Where it is a `Grid`, `exact()` is
        an integer vector, and the result a function of it plus independent discrete Gaussian noise
        of scale `NOISE_STEPS`, added in integers. The caller answers for the sensitivity of `exact`
        by which this is the event. A committed release is given back, and not charged again.
        """
        if (kept := self.kept_output(mechanism)) is not None:
            return kept
        self.settle()
        self._begin(mechanism, uses)
        with self.breaking():
            if isinstance(noise, Grid):
                noisy = self.noised_on_grid(exact(), noise)
            else:
                noisy = self.noised(exact(), noise)
            output = noisy.float().cpu()
        self._commit(uses, State(tensors={"output": output}), None)
        self.resume_point.give(mechanism.name)
        self._interrupt.raise_if_pending()
        return self._told(self._through(output))

    def noised(self, value: torch.Tensor, deviation: float) -> torch.Tensor:
        """`value` plus Gaussian noise, in float64: the only place that adds such noise."""
        return value.double() + deviation * self.noise.normal(
            value.shape, value.device, torch.float64
        )

    def noised_on_grid(self, steps: torch.Tensor, grid: Grid) -> torch.Tensor:
        """`steps` plus exact noise, in integers, scaled afterwards: the only place that adds it."""
        if steps.dtype != torch.int64:
            raise PrivacyError(f"exact noise is added to int64 steps, not to {steps.dtype}.")
        noisy = steps + self.noise.discrete_gaussian(steps.shape, NOISE_STEPS, steps.device)
        return noisy.double() * grid.step

    def next_step(self, mechanism: Stepwise) -> int | None:
        """The number of the next step, or None when the plan has none left."""
        done = self.spent(mechanism)
        return done if done < mechanism.steps else None

    def needs_block(self, mechanism: Mechanism) -> bool:
        """Whether the next step begins a block of its own."""
        self._refuse_if_shut()
        reserve = self._journal.ledger.open_block
        if reserve is None or reserve.body["mechanism"] != mechanism.name:
            return True
        return bool(self._done_in_block >= reserve.body["uses"])

    def begin_step(
        self, mechanism: Mechanism, block: int, before_commit: Callable[[], None]
    ) -> None:
        """Make sure that a reserved block covers the next step.

        before_commit: raises if the loss or a model changed since the trial before the block.
        """
        if not self._marked:
            raise PrivacyError(
                "call context.checkpoint(...) after every step, where the state is consistent."
            )
        if self.needs_block(mechanism):
            self.settle()
            left = mechanism.uses - self._journal.spent(mechanism.name)
            self._begin(mechanism, min(block, left) if left > 0 else 1)
            self._before_commit = before_commit

    def release_step(self, total: torch.Tensor, planned: Stepwise, divisor: float) -> torch.Tensor:
        """The noisy output of a step; the method must call `checkpoint` before the next one.

        Guarantee: `total` plus independent Gaussian noise of standard deviation
        `sigma * sensitivity` on every coordinate, divided by a declared constant.
        """
        noised = self.noised(total, planned.sigma * planned.sensitivity)
        self._done_in_block += 1
        self._marked = False
        return self._through((noised / divisor).float())

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """The context of all work on private records.

        Whether a callback raises there may depend on one record. So an exception ends the run: it
        is never resumed or released, and a method that catches it gets nothing more. After what is
        no callback's failure (Ctrl-C, say) another process can resume the run.
        """
        self._refuse_if_shut()
        self._in_callback = True
        try:
            yield
        except NO_FAILURE_OF_A_CALLBACK:
            self._shut = _STOPPED
            self.abandon()
            raise
        except BaseException as error:
            self._fail()
            raise RunFailed.because(error) from error
        finally:
            self._in_callback = False

    def _fail(self) -> None:
        self._shut = _FAILED
        try:
            with self._interrupt.uninterrupted():
                self._journal.fail()
        finally:
            self._interrupt.end()

    def on_commit(self, tell: Callable[[int], None] | None) -> None:
        """Set what is called with the number of steps of each committed block (a progress bar)."""
        self._on_commit = tell

    def checkpoint(self, snapshot: Callable[[], State]) -> None:
        """Stage a state to resume from; commit a full block with it. Between blocks it is kept.

        When a block is full must not follow the time of its steps, which tells of their records.
        """
        self._refuse_if_shut()
        if self._in_callback:
            raise PrivacyError("call context.checkpoint(...) outside callbacks on records.")
        self._marked = True
        self.resume_point.stage(snapshot)
        reserve = self._journal.ledger.open_block
        if reserve is None:
            self._journal.keep(self.resume_point.checkpoint())
        elif self._interrupt.pending or self._done_in_block >= reserve.body["uses"]:
            self._commit(self._done_in_block, None, self.resume_point.checkpoint())
        self._interrupt.raise_if_pending()

    def restore(self) -> State | None:
        """The method's state that was kept last; outputs that it had seen are not given again."""
        return self.resume_point.restore()

    def settle(self) -> None:
        """Commit the open block with the staged state; void it if it has no step."""
        self._refuse_if_shut()
        if self._journal.ledger.open_block is not None:
            if not self._marked:
                raise PrivacyError("call context.checkpoint(...) after the last step.")
            if self._done_in_block:
                self._commit(self._done_in_block, None, self.resume_point.checkpoint())
            else:
                self._void()
        self._interrupt.raise_if_pending()

    def abandon(self) -> None:
        """After an exception: charge the steps whose output was returned. Their state is kept if it
        was staged after the last of them; otherwise it may be inconsistent, and is dropped. If the
        disk refuses, the block counts as spent until the next process settles it. After a GPU
        failure neither state nor owner's figures can be read.
        """
        try:
            settled = self._journal.ledger.open_block is None or self._journal.left_to_recovery
            if settled or self._shut == _FAILED:
                return
            if not self._done_in_block:
                with suppress(OSError):
                    self._void()
            else:
                self._charge()
        finally:
            self._interrupt.end()

    def _charge(self) -> None:
        """Charge the steps whose output was returned, with or without their state."""
        kept = False
        try:
            kept = self._marked and self._kept_as_it_stands()
        finally:
            if not kept:
                self._charge_without_state()

    def _kept_as_it_stands(self) -> bool:
        try:
            with self._interrupt.uninterrupted():
                self._commit(self._done_in_block, None, self.resume_point.checkpoint())
        except Exception:  # noqa: BLE001 - whatever a method's snapshot raises, steps are charged
            return self._journal.left_to_recovery
        return True

    def _charge_without_state(self) -> None:
        lost = self._done_in_block
        with suppress(OSError, RuntimeError):
            self._commit(lost, None, None)
            self.progress.say(
                f"the last {lost} private steps are charged, and what they taught is lost: a "
                "resumed run goes on from before them."
            )

    def _begin(self, mechanism: Mechanism, uses: int) -> None:
        self._refuse_if_shut()
        self._interrupt.begin()
        try:
            with self._interrupt.uninterrupted():
                self._journal.reserve(mechanism.name, uses)
                # A machine restored from a snapshot would otherwise draw the same noise again.
                self.noise.rekey()
                self._done_in_block = 0
        except BaseException:
            self._interrupt.end()
            raise

    def _commit(self, uses: int, outputs: State | None, checkpoint: Checkpoint | None) -> None:
        if self._before_commit is not None and self._shut is None:
            with self.breaking():
                self._before_commit()
        self._before_commit = None
        before, self._shut = self._shut, self._shut or _NOT_SAVED
        with self._interrupt.uninterrupted():
            self._journal.commit(uses, outputs, checkpoint)
            self._done_in_block = 0
            self._shut = before
        self._interrupt.end()
        self.owner_log.keep()
        if self._on_commit is not None:
            self._on_commit(uses)

    def _void(self) -> None:
        with self._interrupt.uninterrupted():
            self._journal.void()
        self._interrupt.end()
        self.owner_log.drop()

    def _refuse_if_shut(self) -> None:
        if self._shut is not None:
            raise PrivacyError(self._shut)

    def _told(self, output: torch.Tensor) -> torch.Tensor:
        """A hook for outputs other than steps: a team's first process sends them to the others."""
        return output

    def _through(self, output: torch.Tensor) -> torch.Tensor:
        return output if self._tape is None else self._tape.through(output)
