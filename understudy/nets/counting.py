"""How much work one pass of a network is, counted without doing it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

_LAYERS = (nn.Conv2d, nn.Linear)


def count_multiplications(
    build: Callable[[], nn.Module], inputs: Sequence[tuple[int, ...]]
) -> float:
    """Of one pass forward of one row, by convolutions and dense layers.

    build: makes the network. inputs: the shape of each of its arguments, without rows. Both stay on
    torch's meta device, which holds shapes and no numbers.
    """
    counted: list[float] = []

    def note(layer: nn.Module, _: object, made: torch.Tensor) -> None:
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        counted.append(float(weight.numel() * math.prod(made.shape[2:])))

    with torch.device("meta"), torch.no_grad():
        network = build()
        for layer in network.modules():
            if isinstance(layer, _LAYERS):
                layer.register_forward_hook(note)
        network.eval()(*(torch.empty(1, *shape) for shape in inputs))
    return sum(counted)
