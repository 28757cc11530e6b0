"""Who adds units up: this process alone, a team of processes, or an audit that adds canaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from understudy.data.records import Records
from understudy.privacy.plan.mechanisms import DPSGD, NoisyHistogram, NoisySum
from understudy.privacy.sums.clipping import Blocks, ClippedSum
from understudy.privacy.sums.units import Rows

if TYPE_CHECKING:
    from understudy.privacy.dpsgd.engine import GradientEngine, GradientSum
    from understudy.privacy.dpsgd.loss import Values

Vectors = torch.Tensor | Blocks
Chunks = Iterator[tuple[Vectors, Rows]]
"""Vectors of some rows, and the unit of each."""


class Summation:
    """The summation of one process. A team and an audit override what they do otherwise; clipping,
    noise and ledger are the same for all of them.

    Guarantee: every unit's vector is in a sum at most once, clipped by the `ClippedSum` that is
    given.
    """

    captures: ClassVar[bool] = True
    """Whether micro-batches may be replayed by a CUDA graph."""

    def allow(self, what: str) -> None:
        """Refuse an operation that this summation has no form of."""
        del what

    def share(self, records: Records) -> Records:
        """The records whose units this process samples in DP-SGD."""
        return records

    def share_of(self, expected: float) -> float:
        """How many of the units that a step draws on average are drawn by this process."""
        return expected

    def sampled(self, units: int) -> int:
        """How many units a step draws from, where this process has so many records' units."""
        return units

    def one_shot(
        self,
        planned: NoisySum | NoisyHistogram,
        start: Callable[[], ClippedSum],
        chunks: Chunks,
    ) -> torch.Tensor:
        """The sum over all units of one release."""
        del planned
        total = start()
        for vectors, owners in chunks:
            total.add(vectors, owners)
        return total.finish()

    def step(
        self, planned: DPSGD, engine: GradientEngine, chosen: Rows, values: Values
    ) -> GradientSum:
        """The sum over the units that were drawn for one step."""
        del planned
        return engine.clipped_sum(chosen, values)

    def before_step(self, models: Sequence[nn.Module]) -> None:
        """Called before every step."""

    def after_step(self, parameters: Sequence[nn.Parameter]) -> None:
        """Called when a step has set the gradients of these."""
