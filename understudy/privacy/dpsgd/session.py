"""DP-SGD: noisy sums of clipped per-unit gradients, one step at a time.

Opacus divides this work between `PrivacyEngine.make_private`, `UniformWithReplacementSampler` and
`DPOptimizer.step`; here the caller's optimiser is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.privacy.door.batch import Draws
from understudy.privacy.door.steps import Steps, steps_in_block
from understudy.privacy.door.summation import Summation
from understudy.privacy.dpsgd.engine import GradientEngine, GradientSum
from understudy.privacy.dpsgd.loss import BoundLoss, Loss, Values, values_on
from understudy.privacy.dpsgd.models import BoundModels
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.sums.units import UnitIndex

if TYPE_CHECKING:
    from understudy.privacy.door.door import Door


class DPSGDSession(Steps[DPSGD]):
    """The steps of one planned DP-SGD mechanism on bound models and a bound loss.

    After each step the caller runs its optimiser and calls `context.checkpoint`.
    """

    def __init__(
        self,
        door: Door,
        mechanism: DPSGD,
        models: Sequence[nn.Module],
        loss: Loss,
        draws: Draws,
        speed: Speed,
        records: Records,
        count: int,
        summation: Summation,
    ) -> None:
        """count: the declared number of units behind this handle."""
        super().__init__(door, mechanism)
        self._speed, self._count = speed, count
        self._summation = summation
        own = summation.share(records)
        speed = replace(speed, cuda_graph=speed.cuda_graph and summation.captures)
        self._units = summation.sampled(len(UnitIndex(own)))
        self._engine = GradientEngine(
            BoundModels(models),
            BoundLoss(loss),
            draws,
            mechanism,
            speed,
            own,
            door.noise,
            summation.share_of(self.expected_batch),
        )

    @property
    def expected_batch(self) -> float:
        """The average number of units in a step, by the declared count: the only denominator."""
        return self.mechanism.rate * self._count

    def step(
        self,
        values: Mapping[str, Any] | None = None,
        public_grads: Sequence[torch.Tensor] | None = None,
    ) -> None:
        """One step: sets `.grad` of every trained parameter.

        Guarantee: every unit joins independently with probability `rate`; the gradients
        of its records, averaged over `multiplicity` draws, over all models together,
        are summed and clipped once to L2 norm `clip`; noise of standard deviation
        `sigma * clip` is added to the sum of all units, also when none joined. Sensitivity
        `clip` under adding or removing one unit. Event: one Poisson-sampled Gaussian.

        The released sum is divided by `expected_batch`, a declared constant. `values` is the third
        argument of the loss. `public_grads` (from public or generated data, at a constant batch
        size) are added after the noise, one per trained parameter.
        """
        engine, door, planned = self._engine, self._door, self.mechanism
        given = values_on(engine.device, values)
        _check_public(engine.bound.parameters, public_grads)
        self._summation.before_step(engine.bound.models)
        if door.needs_block(planned):
            self._try(given)
        door.begin_step(planned, self._block_steps(), engine.require_unchanged)
        with door.breaking():
            # On the CPU: the host would wait for the GPU's answer, and the GPU would then idle.
            chosen = np.flatnonzero(door.noise.bernoulli(self._units, planned.rate).numpy())
            result = self._summation.step(planned, engine, chosen, given)
        self._note(result)
        released = door.release_step(result.total, planned, self.expected_batch)
        _assign(engine.bound.parameters, released, public_grads)
        self._summation.after_step(engine.bound.parameters)

    def _try(self, values: Values) -> None:
        """Run the engine's trials; the first time with a bar of its own, as compilation may take
        minutes."""
        engine, progress = self._engine, self._door.progress
        name = engine.preparation
        with progress.task(name) if name else nullcontext():
            engine.run_trials(values)
        if engine.notice:
            progress.say(engine.notice)
            engine.notice = ""

    def _block_steps(self) -> int:
        return steps_in_block(self._speed.block_steps, self._engine.step_seconds)

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
            f"public_grads must hold {len(parameters)} tensors, one per trained parameter "
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
