"""Gradients on inputs of one shape, captured on a GPU as a CUDA graph and replayed at each step.

A small network's kernels take less time than the host needs to launch them one by one; a replay
launches them together. Only speed depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import nn

Inputs = Mapping[str, torch.Tensor]
Capture = Callable[[Callable[[], None]], Callable[[], None]]
"""Captures work that always reads and writes the same tensors; returns its replay."""

_WARM_UPS = 3
_TOLERANCE = 1e-2
"""Relative difference of norms in bfloat16: atomic additions round in another order each time."""

_WORDS = 200


def capture_on(device: torch.device) -> Capture | None:
    """The capture of CUDA graphs on this device; None where it has none."""
    if device.type != "cuda" or not torch.version.cuda:
        return None
    return partial(_captured, device)


def _captured(device: torch.device, work: Callable[[], None]) -> Callable[[], None]:
    """Capture after warm-up calls on a side stream, as torch requires: libraries initialise then.

    The side stream and the graph have memory pools of their own, so cached memory of the other
    pools is freed first.
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


class Gradients:
    """Sets `.grad` of parameters to the gradients of a loss.

    loss: a function of inputs that keep their names, shapes and devices; it draws no random values
        and copies nothing from the host. capture: None computes without a CUDA graph. say:
        receives one line if the capture fails.
    """

    def __init__(
        self,
        loss: Callable[[Inputs], torch.Tensor],
        parameters: Sequence[nn.Parameter],
        capture: Capture | None,
        say: Callable[[str], None],
    ) -> None:
        self._loss, self._parameters, self._capture, self._say = loss, parameters, capture, say
        self._replay: Callable[[], None] | None = None
        self._inputs: dict[str, torch.Tensor] = {}
        self._found: list[torch.Tensor | None] = []

    def __call__(self, inputs: Inputs) -> None:
        if self._replay is None and self._capture is not None:
            self._try_to_capture(self._capture, inputs)
        if self._replay is None:
            self._compute(inputs)
        else:
            self._replayed(self._replay, inputs)

    def _replayed(self, replay: Callable[[], None], inputs: Inputs) -> None:
        for name, kept in self._inputs.items():
            kept.copy_(inputs[name])
        replay()
        for parameter, gradient in zip(self._parameters, self._found, strict=True):
            parameter.grad = gradient

    def _compute(self, inputs: Inputs) -> None:
        for parameter in self._parameters:
            parameter.grad = None
        self._loss(inputs).backward()  # type: ignore[no-untyped-call]

    def _try_to_capture(self, capture: Capture, inputs: Inputs) -> None:
        self._inputs = {name: value.clone() for name, value in inputs.items()}
        try:
            replay = capture(lambda: self._compute(self._inputs))
            self._found = [parameter.grad for parameter in self._parameters]
            self._compare(replay, inputs)
            self._replay = replay
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self._capture = None
            why = " ".join(str(error).split())[:_WORDS]
            self._say(f"steps run without a CUDA graph, so they are slower: {why}")

    def _compare(self, replay: Callable[[], None], inputs: Inputs) -> None:
        """Refuse a replay whose gradients are not those computed without it, on inputs it was not
        captured with: the rows of one of them change places."""
        name, value = next(iter(inputs.items()))
        others = {**inputs, name: value.roll(1, 0)}
        self._compute(others)
        wanted = self._gradient()
        self._replayed(replay, others)
        off = float((self._gradient() - wanted).norm() / wanted.norm().clamp(min=1e-30))
        if not off <= _TOLERANCE:
            raise RuntimeError(f"replayed gradients are off by {off:.2g}")

    def _gradient(self) -> torch.Tensor:
        found = [p.grad for p in self._parameters if p.grad is not None]
        return torch.cat([gradient.double().reshape(-1) for gradient in found])
