"""What a method's callback gives for each row, and what a planned sum makes of the total."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from understudy.errors import PrivacyError
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.summation import Vectors
from understudy.privacy.plan.mechanisms.unit_sum import UnitSum
from understudy.privacy.sums.clipping import Blocks

if TYPE_CHECKING:
    from understudy.privacy.door.door import Door


def packed(fn: Callable[[Batch], Vectors]) -> Callable[[Batch], torch.Tensor]:
    """`fn` with `Blocks` as their values and, in a last column, the number of the block."""

    def as_one(batch: Batch) -> torch.Tensor:
        found = fn(batch)
        if isinstance(found, Blocks):
            return torch.cat((found.values, found.block.unsqueeze(1)), dim=1)
        return found

    return as_one


def dense(vectors: Vectors) -> torch.Tensor:
    return vectors.dense() if isinstance(vectors, Blocks) else vectors


def named_sum(door: Door, part: str, name: str) -> UnitSum:
    """The planned sum of this name on this part, with a use left."""
    mechanism = door.plan.mechanism(name)
    if not isinstance(mechanism, UnitSum):
        raise PrivacyError(
            f"{name!r} ({mechanism.kind}: {mechanism.title}) is no sum over units that release "
            "could run."
        )
    if mechanism.part != part or not door.wants(mechanism):
        raise PrivacyError(
            f"the plan holds no unspent {name!r} on part {part!r}; say it in spend() first."
        )
    if mechanism.is_plain and mechanism.sensitivity < mechanism.unit_norm:
        raise PrivacyError(
            f"{name!r} says that one unit moves a sum by "
            f"{mechanism.sensitivity / mechanism.unit_norm:g} times the norm "
            "that it is clipped to; a sum moves by that norm, so the least multiple is 1."
        )
    return mechanism


def check_width(mechanism: UnitSum, width: int) -> None:
    if mechanism.width not in (None, width):
        raise PrivacyError(
            f"{mechanism.name!r} sums vectors of {mechanism.width} numbers, and vector_of gives "
            f"vectors of {width}."
        )


def shape_of(
    mechanism: UnitSum, width: int, device: torch.device
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The mechanism's `shaped` for sums of this width, tried on zeros before it sees a sum.

    Guarantee: the form of what noise is added to is that for zeros, so it is public, and its
    numbers are float64.
    """
    form = _shaped(mechanism, torch.zeros(width, dtype=torch.float64, device=device)).shape

    def shaped(total: torch.Tensor) -> torch.Tensor:
        found = _shaped(mechanism, total)
        if found.shape != form:
            raise PrivacyError("shaped gave another form for a sum than for zeros.")
        return found

    return shaped


def _shaped(mechanism: UnitSum, total: torch.Tensor) -> torch.Tensor:
    return mechanism.shaped(total.double())
