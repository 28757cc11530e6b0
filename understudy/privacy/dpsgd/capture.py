"""Work on a GPU, recorded once and replayed: its kernels are launched together, not one by one.

What is recorded reads and writes the same tensors at each replay, draws nothing at random and
waits for nothing. Whoever replays must hold it against what is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

Recorder = Callable[[Callable[[], None]], Callable[[], None]]
"""Makes of some work on the GPU, always on the same tensors, what does it again."""

_REHEARSALS = 3


def recorder_for(device: torch.device) -> Recorder | None:
    """CUDA graphs, on a GPU that has them."""
    if device.type != "cuda" or not torch.version.cuda:
        return None
    return partial(_recorded, device)


def _recorded(device: torch.device, work: Callable[[], None]) -> Callable[[], None]:
    """On that GPU, whichever is the current one."""
    with torch.cuda.device(device):
        return _recorded_here(work)


def _recorded_here(work: Callable[[], None]) -> Callable[[], None]:
    """Done a few times first, beside the current stream: libraries set themselves up then.

    Either stream, and the recording, has memory of its own: what the others hold ready is given
    back first (torch does so itself before it records).
    """
    here, beside = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    torch.cuda.empty_cache()
    beside.wait_stream(here)
    with torch.cuda.stream(beside):
        for _ in range(_REHEARSALS):
            work()
    here.wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            work()
    finally:
        torch.cuda.set_stream(here)  # torch leaves it out where a recording cannot be ended
    return graph.replay
