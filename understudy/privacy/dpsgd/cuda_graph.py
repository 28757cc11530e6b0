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
from understudy.privacy.door.batch import Batch, Draws
from understudy.privacy.dpsgd.backends.base import Loss, standing
from understudy.privacy.dpsgd.capture import Recorder
from understudy.privacy.dpsgd.holdings import held_by
from understudy.privacy.dpsgd.tensors_read import reads_others
from understudy.privacy.sums.clipping import Clipped

_NUDGE = 0.1
"""Of parameters, relative: gradients then differ by more than any tolerance."""

_READ = 2
"""Rows on which it is seen which tensors a loss reads."""

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
    it holds them, so that nothing else can come to lie there. It serves as long as models, loss
    and draws are otherwise as they were.

    Guarantee: as the work's own (`clip_into`), which it repeats, kernel by kernel: a record adds a
    vector of norm at most the clip, and nothing where it is not used. `Trial` compares them.
    """

    def __init__(
        self,
        record: Recorder,
        work: Work,
        loss: Loss,
        draws: Draws,
        models: Sequence[nn.Module],
        example: Batch,
        records: int,
    ) -> None:
        self._loss, self._draws, self._models = loss, dict(draws), list(models)
        self._loss_holds, self._standing = held_by(loss), standing(models)
        if self._loss_holds is None:
            raise RuntimeError("the loss holds what may change")
        self._held = [tensor.detach() for model in models for tensor in _tensors_of(model)]
        if any(tensor.device != example.features.device for tensor in self._held):
            raise RuntimeError("a model holds a tensor on another device, whose value would stay")
        if reads_others(loss, self._models, example.rows(0, _READ), self._held):
            raise RuntimeError("the loss reads a tensor that is neither a model's nor its rows'")
        self._batch, self._form = _cloned(example), _form(example)
        self._used = torch.ones(records, dtype=torch.bool, device=example.features.device)
        first = work(self._batch, self._used)
        self._part = Part(first.losses.clone(), _cloned_sum(first.clipped))
        self.replays = 0
        self._replay = record(
            lambda: _copy(work(self._batch, self._used).tensors, self._part.tensors)
        )

    def serves(self, loss: Loss, draws: Draws) -> bool:
        """Whether this is the loss that was recorded, and all is as it was."""
        return (
            loss is self._loss
            and dict(draws) == self._draws
            and held_by(loss) == self._loss_holds
            and standing(self._models) == self._standing
        )

    def __call__(self, batch: Batch, used: torch.Tensor) -> Part:
        """As the work gives it; it holds until the next call."""
        if _form(batch) != self._form or used.shape != self._used.shape:
            raise PrivacyError("a micro-batch of another form than was recorded.")
        _copy([*batch.tensors, used], [*self._batch.tensors, self._used])
        self._replay()
        self.replays += 1
        return self._part


Computed = Callable[[Batch, int], list[torch.Tensor]]
"""From a micro-batch, of which so many first records are real, to their losses (all), and the
clipped sum of their gradients."""


class Trial:
    """What is computed of other records than a recording is made with: in other places, some of
    them padding, and with parameters of other values.

    It is computed before anything is recorded. A recording keeps the memory that it works in,
    and computing beside it would take as much again.
    """

    def __init__(
        self, compute: Computed, parameters: Sequence[torch.Tensor], example: Batch, records: int
    ) -> None:
        order = torch.arange(len(example), device=example.features.device)
        others = example.picked(order.roll(len(example) // records))
        self._batch = replace(others, features=others.features.flip(-1))
        self._places = order[:records]
        self._parameters = list(parameters)
        self._moved = [p.detach() * (1 + _NUDGE * torch.randn_like(p)) for p in parameters]
        with self._weights_moved():
            self._wanted = {
                real: [tensor.clone() for tensor in compute(self._batch, real)]
                for real in (records, records // 2, 1)
            }

    def require(self, recorded: RecordedPart, tolerance: float) -> None:
        """Refuse a recording that does not give the same, or adds something of nobody."""
        with self._weights_moved():
            for real, wanted in self._wanted.items():
                part = recorded(self._batch, self._places < real)
                for found, other in zip((part.losses, part.clipped.total), wanted, strict=True):
                    off = float((found - other).norm() / other.norm().clamp(min=1e-30))
                    if not off <= tolerance:
                        raise RuntimeError(f"replayed sums are off by {off:.2g}")
            nobody = recorded(self._batch, self._places < 0).clipped.total
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


def _tensors_of(model: nn.Module) -> Iterator[torch.Tensor]:
    yield from model.parameters()
    yield from model.buffers()
    for module in model.modules():
        yield from (held for held in vars(module).values() if isinstance(held, torch.Tensor))


def _form(batch: Batch) -> list[tuple[object, ...]]:
    named = [("", batch.features), *batch.attributes.items(), *batch.draws.items()]
    return [(name, tuple(tensor.shape), tensor.dtype) for name, tensor in named]


@torch.no_grad()
def _copy(values: Sequence[torch.Tensor], places: Sequence[torch.Tensor]) -> None:
    for value, place in zip(values, places, strict=True):
        place.copy_(value)


def _cloned(batch: Batch) -> Batch:
    attributes = {name: column.clone() for name, column in batch.attributes.items()}
    draws = {name: drawn.clone() for name, drawn in batch.draws.items()}
    return Batch(batch.features.clone(), attributes, draws, batch.label)


def _cloned_sum(found: Clipped) -> Clipped:
    return Clipped(found.total.clone(), found.norms.clone(), found.clip)
