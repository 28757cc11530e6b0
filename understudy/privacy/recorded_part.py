"""What a micro-batch adds to a clipped sum, recorded once on a GPU and replayed for the others.

A micro-batch takes hundreds of kernels, and a host may need longer to launch them than the GPU to
run them. All micro-batches have one shape, so that one recording serves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import nn

from understudy.errors import PrivacyError
from understudy.privacy.backends.base import Loss, standing
from understudy.privacy.batch import Batch
from understudy.privacy.clipping import Clipped
from understudy.privacy.recorder import Recorder

_NUDGE = 0.1
"""Of parameters, relative: gradients then differ by more than any tolerance."""

FEWEST_RECORDS = 3
"""Of a micro-batch: with fewer, a trial could not tell records apart."""


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

    It reads the tensors of the models where they lie, with the values that they have by then;
    it holds them, so that nothing else can come to lie there. It serves as long as the models
    are otherwise as they were, and the loss closes over the same. What changes inside of an
    object that the loss closes over is as it was when recorded.
    """

    def __init__(
        self,
        record: Recorder,
        work: Work,
        loss: Loss,
        models: Sequence[nn.Module],
        example: Batch,
        records: int,
    ) -> None:
        self._loss, self._holds, self._models = loss, _held_by(loss), list(models)
        self._standing = standing(models)
        self._held = [tensor.detach() for model in models for tensor in _tensors_of(model)]
        self._batch, self._form = _cloned(example), _form(example)
        self._used = torch.ones(records, dtype=torch.bool, device=example.features.device)
        first = work(self._batch, self._used)
        self._part = Part(first.losses.clone(), _cloned_sum(first.clipped))
        self.replays = 0
        self._replay = record(
            lambda: _copy(work(self._batch, self._used).tensors, self._part.tensors)
        )

    def serves(self, loss: Loss) -> bool:
        """Whether this is the loss that was recorded, and the models are as they were."""
        if loss is not self._loss or not all(map(_same, _held_by(loss), self._holds)):
            return False
        return standing(self._models) == self._standing

    def __call__(self, batch: Batch, used: torch.Tensor) -> Part:
        """As the work gives it; it holds until the next call."""
        if _form(batch) != self._form or used.shape != self._used.shape:
            raise PrivacyError("a micro-batch of another form than was recorded.")
        _copy([*_tensors(batch), used], [*_tensors(self._batch), self._used])
        self._replay()
        self.replays += 1
        return self._part


class Trial:
    """What work gives of other records than a recording is made with: in other places, some or
    all but one of them unused, and with parameters of other values.

    It is computed before anything is recorded. A recording keeps the memory that it works in,
    and computing beside it would take as much again.
    """

    def __init__(
        self, work: Work, parameters: Sequence[torch.Tensor], example: Batch, records: int
    ) -> None:
        order = torch.arange(len(example), device=example.features.device)
        others = example.picked(order.roll(len(example) // records))
        self._batch = replace(others, features=others.features.flip(-1))
        self._parameters = list(parameters)
        self._moved = [p.detach() * (1 + _NUDGE * torch.randn_like(p)) for p in parameters]
        some, one = order[:records] >= records // 3, order[:records] == records - 1
        with self._weights_moved():
            self._wanted = [(used, _kept(work(self._batch, used))) for used in (some, one)]

    def require(self, recorded: RecordedPart, tolerance: float) -> None:
        """Refuse a recording that does not give the same, or adds something of nobody."""
        with self._weights_moved():
            for used, wanted in self._wanted:
                for found, other in zip(recorded(self._batch, used).tensors, wanted, strict=True):
                    off = float((found - other).norm() / other.norm().clamp(min=1e-30))
                    if not off <= tolerance:
                        raise RuntimeError(f"replayed sums are off by {off:.2g}")
            nobody = recorded(self._batch, torch.zeros_like(used)).clipped.total
            if bool((nobody != 0).any()):
                raise RuntimeError("a replay adds records that are not used")

    @contextmanager
    def _weights_moved(self) -> Iterator[None]:
        kept = [parameter.detach().clone() for parameter in self._parameters]
        try:
            _copy(self._moved, self._parameters)
            yield
        finally:
            _copy(kept, self._parameters)


def closes_over_tensors(loss: Loss) -> bool:
    """Whether a loss holds networks or tensors of its own, which a recording would not follow."""
    return any(isinstance(held, nn.Module | torch.Tensor) for held in _held_by(loss))


def _held_by(loss: Loss) -> list[object]:
    function = getattr(loss, "__func__", loss)
    cells = getattr(function, "__closure__", None) or ()
    return [cell.cell_contents for cell in cells] + [getattr(loss, "__self__", None)]


def _same(one: object, other: object) -> bool:
    plain = isinstance(one, bool | int | float | str) and type(one) is type(other)
    return one is other or (plain and one == other)


def _tensors_of(model: nn.Module) -> Iterator[torch.Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def _kept(part: Part) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in part.tensors]


def _form(batch: Batch) -> list[tuple[object, ...]]:
    named = [("", batch.features), *batch.attributes.items(), *batch.draws.items()]
    return [(name, tuple(tensor.shape), tensor.dtype) for name, tensor in named]


@torch.no_grad()
def _copy(values: Sequence[torch.Tensor], places: Sequence[torch.Tensor]) -> None:
    for value, place in zip(values, places, strict=True):
        place.copy_(value)


def _tensors(batch: Batch) -> list[torch.Tensor]:
    return [batch.features, *batch.attributes.values(), *batch.draws.values()]


def _cloned(batch: Batch) -> Batch:
    attributes = {name: column.clone() for name, column in batch.attributes.items()}
    draws = {name: drawn.clone() for name, drawn in batch.draws.items()}
    return Batch(batch.features.clone(), attributes, draws, batch.label)


def _cloned_sum(found: Clipped) -> Clipped:
    return Clipped(found.total.clone(), found.norms.clone(), found.clip)
