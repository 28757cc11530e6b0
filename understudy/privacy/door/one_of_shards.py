"""Gradients of one shard's sealed model, drawn anew for every step (as in GS-WGAN).

Which shard it was is the door's secret: it is in no ledger, log, output or state.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import nn

from understudy.privacy.door.steps import MOST_STEPS, Steps, steps_in_block
from understudy.privacy.plan.mechanisms import OneOfShardsGradients
from understudy.privacy.sums.clipping import clip_whole

if TYPE_CHECKING:
    from understudy.privacy.door.door import Door
    from understudy.privacy.door.ensemble import Ensemble

InputLoss = Callable[[nn.Module, torch.Tensor], torch.Tensor]
"""What a shard's model (or models, as one module) makes of a whole batch of inputs: a scalar."""


class OneOfShardsSession(Steps[OneOfShardsGradients]):
    """The steps of one planned mechanism on one ensemble."""

    def __init__(
        self, door: Door, mechanism: OneOfShardsGradients, ensemble: Ensemble, loss: InputLoss
    ) -> None:
        super().__init__(door, mechanism)
        self._ensemble, self._loss = ensemble, loss
        self._seconds = 0.0

    def step(self, inputs: torch.Tensor) -> torch.Tensor:
        """One step: the noisy gradient of one shard's loss with respect to all inputs together.

        Guarantee: one shard of all `shards`, empty ones among them, is drawn uniformly from the
        secret stream, independently of everything else, and forgotten with the step. The gradient
        of its loss is clipped once as a whole to L2 norm `clip` (an empty shard's is zero), and
        noise of standard deviation `sigma * 2 * clip` is added. Adding or removing one unit
        replaces one shard, which moves this by at most `2 * clip` if it is drawn. Event: one
        Gaussian with multiplier `sigma` on one of `shards`.

        Nothing is noted for the owner either: a figure of one shard would tell which it was.
        """
        door, planned = self._door, self.mechanism
        if door.needs_block(planned):
            started = time.perf_counter()
            self._ensemble.try_gradient(inputs, self._loss)
            self._seconds = time.perf_counter() - started
        door.begin_step(planned, steps_in_block(MOST_STEPS, self._seconds), _nothing_to_compare)
        with door.breaking():
            drawn = int(door.noise.integers(1, planned.shards))
            gradient = self._ensemble.gradient_of_shard(drawn, inputs, self._loss)
            total = clip_whole(gradient, planned.clip)
        return door.release_step(total, planned, 1.0).reshape(inputs.shape)


def _nothing_to_compare() -> None:
    """No callback was bound whose fields could have changed."""
