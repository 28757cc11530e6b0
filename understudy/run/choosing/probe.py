"""How fast this machine is, beside the one of its kind whose rates are known."""

from __future__ import annotations

import time
from functools import cache

import torch
from torch import nn

from understudy.methods.machines import CPU, GPU, machine

_ROWS = {"cpu": 64, "cuda": 4096}
_REPEATS = 5


def seconds_of_probe(device: torch.device) -> float:
    """A training step of a small network with convolutions, the quickest of a few."""
    random = torch.Generator().manual_seed(0)
    images = torch.randn(_ROWS[device.type], 32, 28, 28, generator=random).to(device)
    network = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.SiLU(), nn.Conv2d(32, 32, 3))
    network.to(device)
    return min(_step(network, images) for _ in range(_REPEATS))


@cache
def slower_here(device: torch.device) -> float:
    """How many times as long this machine takes as the one of its kind that was measured.

    Asked once in a process, so that all that it says of one run agrees.
    """
    known = machine(GPU if device.type == "cuda" else CPU)
    return seconds_of_probe(device) / known.probe


def _step(network: nn.Module, images: torch.Tensor) -> float:
    begun = time.monotonic()
    network(images).square().mean().backward()
    if images.device.type == "cuda":
        torch.cuda.synchronize(images.device)
    return time.monotonic() - begun
