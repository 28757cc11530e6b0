"""The networks that the engine is measured on, and what a pass through each costs."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch.utils.flop_counter import FlopCounterMode

from understudy.nets.unet import UNet, UNetSpec

NETWORKS = MappingProxyType(
    {
        "28": UNetSpec(1, 28, 10, 64, (1, 1), (3, 2), (14,), 1),
        "28-patch": UNetSpec(1, 28, 10, 128, (1, 1), (3, 1), (7, 14), 2),
        "32": UNetSpec(3, 32, 10, 64, (1, 2, 2), (2, 2, 1), (8,), 1),
        "tiny": UNetSpec(1, 8, 10, 16, (1, 2), (1, 1), (4,), 1),
    }
)
PEER_PARAMETERS = 1_485_217
"""As its log says, for ten classes: the layers below have just as many."""


def multiply_adds(network: UNet) -> int:
    """Of one pass forward of one row, counted by torch from the operations it runs."""
    spec = network.spec
    row = torch.zeros(1, spec.channels, spec.image_size, spec.image_size)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(row, torch.zeros(1), torch.zeros(1, dtype=torch.int64))
    return counter.get_total_flops() // 2


@dataclass(frozen=True)
class Cost:
    parameters: int
    multiply_adds: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.parameters + other.parameters, self.multiply_adds + other.multiply_adds)


def peer_cost() -> Cost:
    """DPDM's network for 28x28 in DPImageBench: NCSN++ of 32 channels, twice that at both levels,
    two blocks a level, attention at 14x14, resampling inside of residual blocks."""
    wide, half = 28 * 28, 14 * 14
    down = [_block(32, 64, wide), _block(64, 64, wide), _block(64, 64, half, resampled=True)]
    low = 2 * [_block(64, 64, half), _attention(64, half)]
    middle = [_block(64, 64, half), _attention(64, half), _block(64, 64, half)]
    up = [*3 * [_block(128, 64, half)], _attention(64, half)]
    high = [_block(64, 64, wide, resampled=True), *2 * [_block(128, 64, wide)]]
    last = [_block(96, 64, wide), _norm(64), _layer(9 * 64, 1, wide)]
    known = [_layer(32, 128, 1), _layer(128, 128, 1), Cost(11 * 32, 0)]
    return sum((*down, *low, *middle, *up, *high, *last, *known), start=_layer(9 * 1, 32, wide))


def _layer(inside: int, outside: int, positions: int) -> Cost:
    return Cost(inside * outside + outside, inside * outside * positions)


def _norm(channels: int) -> Cost:
    return Cost(2 * channels, 0)


def _block(inside: int, outside: int, positions: int, *, resampled: bool = False) -> Cost:
    inner = _norm(inside) + _layer(9 * inside, outside, positions) + _layer(128, outside, 1)
    inner += _norm(outside) + _layer(9 * outside, outside, positions)
    past = inside != outside or resampled
    return inner + _layer(inside, outside, positions) if past else inner


def _attention(channels: int, positions: int) -> Cost:
    layers = [_layer(channels, channels, positions) for _ in range(4)]
    return sum(layers, start=_norm(channels) + Cost(0, 2 * channels * positions**2))
