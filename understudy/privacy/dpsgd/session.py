"""DP-SGD: noisy sums of clipped per-unit gradients, a step at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.privacy.door.batch import Draws
from understudy.privacy.dpsgd.backends.base import Loss
from understudy.privacy.dpsgd.engine import GradientEngine, GradientSum
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.sums.units import UnitIndex
from understudy.progress import bar_of_steps

if TYPE_CHECKING:
    from understudy.privacy.door.door import Door

_BLOCK_SECONDS = 30.0
"""A block is about this long at most, so that little is run again after a kill. Judged by
a trial on random data: how long private steps take tells how many records they drew, and
the ledger shows how long blocks are."""


class DPSGDSession:
    """The steps of one planned DP-SGD, with the caller's own work in between.

    After each step the caller runs its optimiser and calls `context.checkpoint`. After a
    restart `steps_done` says how many steps are spent.
    """

    def __init__(
        self,
        door: Door,
        mechanism: DPSGD,
        speed: Speed,
        records: Records,
        units: UnitIndex,
        count: int,
    ) -> None:
        self.mechanism = mechanism
        self._door, self._speed = door, speed
        self._records, self._units = records, units
        self._count = count
        self._engine: GradientEngine | None = None

    @property
    def expected_batch(self) -> float:
        """Units a step draws on average, by the declared count: the only denominator."""
        return self.mechanism.rate * self._count

    @property
    def steps_done(self) -> int:
        return self._door.spent(self.mechanism)

    @property
    def steps_left(self) -> int:
        return self.mechanism.steps - self.steps_done

    def steps(self, description: str = "training") -> Iterator[int]:
        """The numbers of the steps still to do; the bar moves when a block is committed."""
        progress, planned = self._door.progress, self.mechanism
        with bar_of_steps(progress, planned.name, description, planned.steps) as bar:
            bar.advance(self.steps_done)
            self._door.on_commit(bar.advance)
            try:
                while self.steps_left > 0:
                    yield self.steps_done
            finally:
                self._door.on_commit(None)

    def step(
        self,
        models: Sequence[nn.Module],
        loss: Loss,
        public_grads: Sequence[torch.Tensor] | None = None,
        draws: Draws | None = None,
    ) -> None:
        """One step: sets `.grad` of every trainable parameter of `models`.

        Guarantee: every unit joins independently with probability `rate`; the gradients
        of its records, averaged over `multiplicity` draws, over all `models` together,
        are summed and clipped once to L2 norm `clip`; noise of standard deviation
        `sigma * clip` is added to the sum of all units, also when none joined. Sensitivity
        `clip` under adding or removing one unit. Event: one Poisson-sampled Gaussian.

        The released sum is divided by `expected_batch`, a declared constant.
        `public_grads` (from public or generated data, at a constant batch size) are added
        after the noise, one per trainable parameter.
        """
        engine = self._engine_for(models)
        _check_public(engine.parameters, public_grads)
        self._prepare(engine, loss, draws or {})
        self._door.begin_step(self.mechanism, self._block_steps(engine))
        with self._door.breaking():
            rate = self.mechanism.rate
            # On the CPU: an answer of the GPU would have to be waited for, and it then idles.
            chosen = self._door.noise.bernoulli(len(self._units), rate).numpy()
            result = engine.clipped_sum(loss, draws or {}, np.flatnonzero(chosen))
        deviation = self.mechanism.sigma * self.mechanism.clip
        noised = self._door.noised(result.total, deviation)
        self._note(result)
        released = self._door.end_step((noised / self.expected_batch).float())
        _assign(engine.parameters, released, public_grads)
        if engine.notice:
            self._door.progress.say(engine.notice)
            engine.notice = ""

    def _engine_for(self, models: Sequence[nn.Module]) -> GradientEngine:
        if self._engine is None or not self._engine.serves(models):
            self._engine = GradientEngine(
                models,
                self.mechanism,
                self._speed,
                self._records,
                self._units,
                self._door.noise,
                self.expected_batch,
            )
        return self._engine

    def _prepare(self, engine: GradientEngine, loss: Loss, draws: Draws) -> None:
        """With a bar of its own: on a GPU a network is compiled for minutes, before any record
        is read, so how long that takes tells nothing."""
        if not engine.is_prepared_for(loss):
            with self._door.progress.task(engine.preparation):
                engine.prepare(loss, draws)

    def _block_steps(self, engine: GradientEngine) -> int:
        fitting = _BLOCK_SECONDS / max(engine.step_seconds, 1e-9)
        return max(1, int(min(self._speed.block_steps, fitting)))

    def _note(self, result: GradientSum) -> None:
        self._door.owner_log.note(
            {
                "mechanism": self.mechanism.name,
                "step": self.steps_done,
                "loss": result.mean_loss,
                "units": result.units,
                "clipped": result.clipped,
            }
        )


def _check_public(
    parameters: Sequence[nn.Parameter], public_grads: Sequence[torch.Tensor] | None
) -> None:
    if public_grads is not None and [g.shape for g in public_grads] != [
        p.shape for p in parameters
    ]:
        raise UserError(
            f"public_grads must hold {len(parameters)} tensors, one per trainable parameter "
            "and of its shape."
        )


def _assign(
    parameters: Sequence[nn.Parameter],
    released: torch.Tensor,
    public_grads: Sequence[torch.Tensor] | None,
) -> None:
    pieces = torch.split(released, [p.numel() for p in parameters])
    for index, (parameter, piece) in enumerate(zip(parameters, pieces, strict=True)):
        gradient = piece.reshape(parameter.shape).to(parameter.dtype)
        if public_grads is not None:
            gradient = gradient + public_grads[index]
        parameter.grad = gradient
