"""What a micro-batch adds to a clipped sum, recorded once on a GPU and replayed for the others.

A micro-batch takes hundreds of kernels, and a host may need longer to launch them than the GPU to
run them. All micro-batches have one shape, so that one recording serves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch

from understudy.privacy.backends.base import Loss
from understudy.privacy.batch import Batch
from understudy.privacy.clipping import Clipped
from understudy.privacy.recorder import Recorder

_TOLERANCE = 1e-2
"""By norm, of gradients in bfloat16: some kernels add in another order each time."""

_NUDGE = 0.1
"""Of parameters, relative: gradients then differ by more than the tolerance."""


class Part(NamedTuple):
    """The losses of a micro-batch's records, and the clipped sum of their gradients."""

    losses: torch.Tensor
    clipped: Clipped

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [self.losses, self.clipped.total, self.clipped.norms]


Work = Callable[[Batch, torch.Tensor], Part]
"""From a micro-batch, and which of its records are used (bool [records])."""


class RecordedPart:
    """Replays work on micro-batches of one form.

    It reads the parameters where they lie, with the values that they have by then. Whatever
    else the loss and the models hold is as it was when recorded, so that the clip is.
    """

    def __init__(
        self,
        record: Recorder,
        work: Work,
        loss: Loss,
        parameters: Sequence[torch.Tensor],
        example: Batch,
        records: int,
    ) -> None:
        self._loss, self._parameters = loss, list(parameters)
        self._places = self._where()
        self._batch = _cloned(example)
        self._used = torch.ones(records, dtype=torch.bool, device=example.features.device)
        first = work(self._batch, self._used)
        self._part = Part(first.losses.clone(), _cloned_sum(first.clipped))
        self._replay = record(
            lambda: _copy(work(self._batch, self._used).tensors, self._part.tensors)
        )

    def serves(self, loss: Loss) -> bool:
        """Whether this is the loss that was recorded, and the parameters lie where they lay."""
        return loss is self._loss and self._where() == self._places

    def __call__(self, batch: Batch, used: torch.Tensor) -> Part:
        """As the work gives it; it holds until the next call."""
        _copy([*_tensors(batch), used], [*_tensors(self._batch), self._used])
        self._replay()
        return self._part

    def _where(self) -> list[int]:
        return [parameter.data_ptr() for parameter in self._parameters]


def check_recorded(
    recorded: RecordedPart, work: Work, example: Batch, parameters: Sequence[torch.Tensor]
) -> None:
    """Refuse a recording that does not give what its work gives: of other records than it was
    made with, in other places, some of them unused, and with parameters of other values."""
    records = len(recorded._used)
    order = torch.arange(len(example), device=recorded._used.device)
    others = example.picked(order.roll(len(example) // records))
    others = Batch(others.features.flip(-1), others.attributes, others.draws, others.label)
    used = torch.ones_like(recorded._used)
    used[: records // 3] = False
    with _nudged(parameters):
        wanted, found = work(others, used).tensors, recorded(others, used).tensors
        for one, other in zip(found, wanted, strict=True):
            off = float((one - other).norm() / other.norm().clamp(min=1e-30))
            if not off <= _TOLERANCE:
                raise RuntimeError(f"replayed sums are off by {off:.2g}")


@contextmanager
def _nudged(parameters: Sequence[torch.Tensor]) -> Iterator[None]:
    """Parameters moved at random, in their places, for a while."""
    kept = [parameter.detach().clone() for parameter in parameters]
    try:
        _copy([value * (1 + _NUDGE * torch.randn_like(value)) for value in kept], parameters)
        yield
    finally:
        _copy(kept, parameters)


@torch.no_grad()
def _copy(values: Sequence[torch.Tensor], places: Sequence[torch.Tensor]) -> None:
    for value, place in zip(values, places, strict=True):
        place.copy_(value)


def _tensors(batch: Batch) -> list[torch.Tensor]:
    named = [*sorted(batch.attributes.items()), *sorted(batch.draws.items())]
    return [batch.features, *(tensor for _, tensor in named)]


def _cloned(batch: Batch) -> Batch:
    attributes = {name: column.clone() for name, column in batch.attributes.items()}
    draws = {name: drawn.clone() for name, drawn in batch.draws.items()}
    return Batch(batch.features.clone(), attributes, draws, batch.label)


def _cloned_sum(found: Clipped) -> Clipped:
    return Clipped(found.total.clone(), found.norms.clone(), found.clip)
