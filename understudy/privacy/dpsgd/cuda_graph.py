"""CUDA graph capture and replay of a micro-batch's forward, backward and clipping.

A micro-batch takes hundreds of kernels, and a host may need longer to launch them than the GPU to
run them. All micro-batches have one shape, so that one graph serves them. Opacus has no
counterpart; torch's own is `torch.cuda.make_graphed_callables`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import torch

from understudy.errors import PrivacyError
from understudy.nets.cuda_graph import Capture
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.loss import Values
from understudy.privacy.sums.clipping import Clipped

_NUDGE = 0.1
"""Relative change of parameters in a trial: gradients then differ by more than any tolerance."""

FEWEST_RECORDS = 3
"""Smallest micro-batch that is captured: with fewer records a trial could not tell them apart."""


class Part(NamedTuple):
    """The losses of a micro-batch's records, and the clipped sum of their gradients."""

    losses: torch.Tensor
    clipped: Clipped

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [self.losses, self.clipped.total, self.clipped.norms]


Work = Callable[[Batch, Values, torch.Tensor], Part]
"""Computes a `Part` from a micro-batch, the step's values and a mask of records (bool [records])
to sum."""


class GraphedWork:
    """Replays work on micro-batches and values of one shape and type.

    A graph reads and writes the addresses that it was captured with. `read` returns the tensors
    that the work reads besides its arguments. This object keeps them alive, so that their memory is
    not reused, and `is_current` says whether their owners still use the same addresses.

    Guarantee: that of the work (`clip_into`), whose kernels a replay launches again. A `GraphTrial`
    compares the two on random records before the graph is used on private ones.
    """

    def __init__(
        self,
        capture: Capture,
        work: Work,
        example: Batch,
        values: Values,
        records: int,
        read: Callable[[], Sequence[torch.Tensor]],
    ) -> None:
        device = example.features.device
        self._read = read
        self._held = [tensor.detach() for tensor in read()]
        if any(tensor.device != device for tensor in self._held):
            raise RuntimeError("a model holds a tensor on another device, which no replay rereads")
        self._places = _places(self._held)
        self._batch = example.with_tensors([tensor.clone() for tensor in example.tensors])
        self._form = _form(example, values)
        self._values = {name: value.clone() for name, value in values.items()}
        self._used = torch.ones(records, dtype=torch.bool, device=device)
        first = work(self._batch, self._values, self._used)
        losses, total, norms = (tensor.clone() for tensor in first.tensors)
        self._part = Part(losses, Clipped(total, norms, first.clipped.clip))
        self.replays = 0
        self._replay = capture(
            lambda: _copy(work(self._batch, self._values, self._used).tensors, self._part.tensors)
        )

    def is_current(self) -> bool:
        return _places(self._read()) == self._places

    def __call__(self, batch: Batch, values: Values, used: torch.Tensor) -> Part:
        """The result of the work, in tensors that the next call overwrites."""
        if _form(batch, values) != self._form or used.shape != self._used.shape:
            raise PrivacyError("a micro-batch of another shape or type than was captured.")
        inputs = [*batch.tensors, *values.values(), used]
        _copy(inputs, [*self._batch.tensors, *self._values.values(), self._used])
        self._replay()
        self.replays += 1
        return self._part


Unmasked = Callable[[Batch, Values, int], Sequence[torch.Tensor]]
"""Computes the losses of all records of a micro-batch and the clipped sum of its first `n`, without
the mask that a graph takes."""


class GraphTrial:
    """What a graph must return for inputs it was not captured with: other records, in other places,
    some of them padding, and other values of the parameters.

    The expected results come from `ClippedSum` itself, and are computed before the capture: a graph
    keeps its working memory, and computing beside it would take as much again.
    """

    def __init__(
        self,
        compute: Unmasked,
        parameters: Sequence[torch.Tensor],
        example: Batch,
        values: Values,
        records: int,
    ) -> None:
        order = torch.arange(len(example), device=example.features.device)
        others = example.picked(order.roll(len(example) // records))
        self._batch = replace(others, features=others.features.flip(-1))
        self._values, self._places = values, order[:records]
        self._parameters = list(parameters)
        self._moved = [p.detach() * (1 + _NUDGE * torch.randn_like(p)) for p in parameters]
        with self._weights_moved():
            self._wanted = {
                real: [tensor.clone() for tensor in compute(self._batch, values, real)]
                for real in (records, records // 2, 1)
            }

    def require(self, graph: GraphedWork, tolerance: float) -> None:
        """Refuse a graph whose replay differs, or adds anything when no record is used."""
        with self._weights_moved():
            for real, wanted in self._wanted.items():
                part = graph(self._batch, self._values, self._places < real)
                for found, other in zip((part.losses, part.clipped.total), wanted, strict=True):
                    off = float((found - other).norm() / other.norm().clamp(min=1e-30))
                    if not off <= tolerance:
                        raise RuntimeError(f"replayed sums are off by {off:.2g}")
            of_none = graph(self._batch, self._values, self._places < 0).clipped.total
            if bool((of_none != 0).any()):
                raise RuntimeError("a replay adds records that are not used")

    @contextmanager
    def _weights_moved(self) -> Iterator[None]:
        kept = [parameter.detach().clone() for parameter in self._parameters]
        try:
            _copy(self._moved, self._parameters)
            yield
        finally:
            _copy(kept, self._parameters)


def _places(tensors: Sequence[torch.Tensor]) -> list[tuple[object, ...]]:
    return [(t.data_ptr(), tuple(t.shape), tuple(t.stride()), t.dtype) for t in tensors]


def _form(batch: Batch, values: Values) -> list[tuple[object, ...]]:
    named = [("", batch.features), *batch.attributes.items(), *batch.draws.items()]
    return [(name, tuple(t.shape), t.dtype) for name, t in (*named, *values.items())]


@torch.no_grad()
def _copy(values: Sequence[torch.Tensor], places: Sequence[torch.Tensor]) -> None:
    for value, place in zip(values, places, strict=True):
        place.copy_(value)
