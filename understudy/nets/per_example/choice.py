"""Which gradient backend a session uses: the first one that passes its trial, fastest first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import nn

from understudy.errors import PrivacyError, UserError
from understudy.nets.per_example.base import GradientBackend
from understudy.nets.per_example.compiled import CompiledBackend
from understudy.nets.per_example.expanded import ExpandedBackend
from understudy.nets.per_example.vmap import VmapBackend

Maker = Callable[[Sequence[nn.Module]], GradientBackend]

CANNOT = (
    *(ImportError, NotImplementedError, RuntimeError, ValueError),
    *(TypeError, AttributeError, NameError, UserError),
)
"""What a backend raises on models or losses that it cannot handle. The mistakes of the loss itself
were raised before, in the trial without a backend."""


def first_that_works(
    wanted: str,
    models: Sequence[nn.Module],
    device: torch.device,
    try_out: Callable[[GradientBackend], None],
) -> GradientBackend:
    """The first backend that `try_out` accepts; the last one (vmap) takes any model."""
    failures: list[Exception] = []
    for make in _makers(wanted, device):
        try:
            backend = make(models)
            try_out(backend)
            return backend
        except torch.OutOfMemoryError:
            raise
        except CANNOT as error:
            failures.append(error)
    raise PrivacyError(
        f"the gradients of the loss cannot be computed record by record: {failures[0]}"
    ) from failures[0]


def time_of(work: Callable[[], object], device: torch.device) -> float:
    """How many seconds the second of two calls takes."""
    work()
    _wait_for(device)
    start = time.perf_counter()
    work()
    _wait_for(device)
    return time.perf_counter() - start


def _makers(wanted: str, device: torch.device) -> list[Maker]:
    makers: dict[str, Maker] = {
        "compiled": CompiledBackend,
        "expanded": ExpandedBackend,
        "vmap": VmapBackend,
    }
    if wanted != "auto":
        return [makers[wanted]]
    # On a CPU compiling takes longer than it ever saves.
    return [make for name, make in makers.items() if name != "compiled" or device.type == "cuda"]


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
