"""How the sums over units are computed: by this process alone (here), by several processes
(`team/summation.py`), or with an audit's canaries added (`audit/white_box.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from understudy.data.records import Records
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.plan.mechanisms.unit_sum import UnitSum
from understudy.privacy.sums.clipping import Blocks, ClippedSum
from understudy.privacy.sums.units import Rows

if TYPE_CHECKING:
    from understudy.privacy.dpsgd.engine import GradientEngine, GradientSum
    from understudy.privacy.dpsgd.loss import Values

Vectors = torch.Tensor | Blocks
Chunks = Iterator[tuple[Vectors, Rows]]
"""Chunks of vectors, one a row, with the unit of each row (-1: padding)."""


class Summation:
    """The summation of one process. Subclasses change which units are summed where; clipping, noise
    and ledger are the same for all of them.

    Guarantee: a sum holds every unit's vector at most once, clipped by the caller's `ClippedSum`
    or `GradientEngine`.
    """

    captures: ClassVar[bool] = True
    """Whether the engine may replay micro-batches from a CUDA graph."""

    def allow(self, what: str) -> None:
        """Raise if this summation does not support an operation, named in words."""
        del what

    def allow_sum(self, planned: UnitSum) -> None:
        """The same for a planned sum of any package."""
        del planned

    def share(self, records: Records) -> Records:
        """The records whose units this process samples in DP-SGD."""
        return records

    def share_of(self, expected: float) -> float:
        """This process's part of the average number of units in a step."""
        return expected

    def sampled(self, units: int) -> int:
        """How many units a step samples from, if this process holds the records of `units`."""
        return units

    def one_shot(
        self,
        planned: UnitSum,
        start: Callable[[], ClippedSum],
        chunks: Chunks,
    ) -> torch.Tensor:
        """The clipped sum over all units, for a release that is not a DP-SGD step."""
        del planned
        total = start()
        for vectors, owners in chunks:
            total.add(vectors, owners)
        return total.finish()

    def step(
        self, planned: DPSGD, engine: GradientEngine, chosen: Rows, values: Values
    ) -> GradientSum:
        """The clipped sum over the units that one step sampled."""
        del planned
        return engine.clipped_sum(chosen, values)

    def before_step(self, models: Sequence[nn.Module]) -> None:
        """Called before every step."""

    def after_step(self, parameters: Sequence[nn.Parameter]) -> None:
        """Called after a step has set the `.grad` of its parameters."""
