"""A micro-batch as a CUDA graph: captured once, replayed for all others.

A micro-batch takes hundreds of kernels, and a host may need longer to launch them than the GPU to
run them. All micro-batches have one shape, so that one graph serves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch

from understudy.errors import PrivacyError
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.loss import Values
from understudy.privacy.sums.clipping import Clipped

Capture = Callable[[Callable[[], None]], Callable[[], None]]
"""From work on the GPU, always on the same tensors, to its replay."""

_WARM_UPS = 3
_NUDGE = 0.1
"""Of parameters, relative: gradients then differ by more than any tolerance."""

FEWEST_RECORDS = 3
"""Of a micro-batch: with fewer, a trial could not tell records apart."""


def capture_on(device: torch.device) -> Capture | None:
    """CUDA graphs, on a GPU that has them."""
    if device.type != "cuda" or not torch.version.cuda:
        return None
    return partial(_captured, device)


def _captured(device: torch.device, work: Callable[[], None]) -> Callable[[], None]:
    """Warmed up on a side stream, as capture asks for: libraries set themselves up then.

    The side stream and the graph have memory pools of their own, so what the others hold ready is
    given back first.
    """
    with torch.cuda.device(device):
        here = torch.cuda.current_stream()
        beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
        beside.wait_stream(here)
        with torch.cuda.stream(beside):
            for _ in range(_WARM_UPS):
                work()
        here.wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                work()
        finally:
            torch.cuda.set_stream(here)  # torch does not, where a capture cannot be ended
        return graph.replay


class Part(NamedTuple):
    """The losses of a micro-batch's records, and the clipped sum of their gradients."""

    losses: torch.Tensor
    clipped: Clipped

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [self.losses, self.clipped.total, self.clipped.norms]


Work = Callable[[Batch, Values, torch.Tensor], Part]
"""From a micro-batch, the step's values, and which of its records are used (bool [records])."""


class GraphedWork:
    """Replays work on micro-batches and values of one form.

    A graph reads and writes memory where it lay when it was captured. `read` are the tensors that
    the work reads besides its arguments: they are held here, so that nothing else can come to lie
    there, and `is_current` says whether their owners still have them there.

    Guarantee: that of the work (`clip_into`), which it repeats kernel by kernel. `Trial` compares
    them before a private record meets a graph.
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
            raise RuntimeError("a model holds a tensor on another device, whose value would stay")
        self._places = _places(self._held)
        self._batch, self._form = _cloned(example), _form(example, values)
        self._values = {name: value.clone() for name, value in values.items()}
        self._used = torch.ones(records, dtype=torch.bool, device=device)
        first = work(self._batch, self._values, self._used)
        self._part = Part(first.losses.clone(), _cloned_sum(first.clipped))
        self.replays = 0
        self._replay = capture(
            lambda: _copy(work(self._batch, self._values, self._used).tensors, self._part.tensors)
        )

    def is_current(self) -> bool:
        return _places(self._read()) == self._places

    def __call__(self, batch: Batch, values: Values, used: torch.Tensor) -> Part:
        """As the work gives it; it holds until the next call."""
        if _form(batch, values) != self._form or used.shape != self._used.shape:
            raise PrivacyError("a micro-batch of another form than was captured.")
        inputs = [*batch.tensors, *values.values(), used]
        _copy(inputs, [*self._batch.tensors, *self._values.values(), self._used])
        self._replay()
        self.replays += 1
        return self._part


Computed = Callable[[Batch, Values, int], Sequence[torch.Tensor]]
"""From a micro-batch, of which so many first records are real, to their losses (all), and the
clipped sum of their gradients."""


class Trial:
    """What a graph must give for records that it was not captured with: in other places, some of
    them padding, and with parameters of other values.

    It is computed before the graph is captured: a graph keeps the memory that it works in, and
    computing beside it would take as much again.
    """

    def __init__(
        self,
        compute: Computed,
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
        """Refuse a graph that does not give the same, or adds something of nobody."""
        with self._weights_moved():
            for real, wanted in self._wanted.items():
                part = graph(self._batch, self._values, self._places < real)
                for found, other in zip((part.losses, part.clipped.total), wanted, strict=True):
                    off = float((found - other).norm() / other.norm().clamp(min=1e-30))
                    if not off <= tolerance:
                        raise RuntimeError(f"replayed sums are off by {off:.2g}")
            nobody = graph(self._batch, self._values, self._places < 0).clipped.total
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


def _places(tensors: Sequence[torch.Tensor]) -> list[tuple[object, ...]]:
    return [(t.data_ptr(), tuple(t.shape), tuple(t.stride()), t.dtype) for t in tensors]


def _form(batch: Batch, values: Values) -> list[tuple[object, ...]]:
    named = [("", batch.features), *batch.attributes.items(), *batch.draws.items()]
    return [(name, tuple(t.shape), t.dtype) for name, t in (*named, *values.items())]


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
