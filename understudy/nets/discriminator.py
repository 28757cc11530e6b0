"""A discriminator fit for per-record gradients.

Only layers for which every backend has per-record gradients (convolution, linear, group
normalisation), no layer that mixes records, none that changes a tensor in place, and no
weight used twice in one pass.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from understudy.nets.sizes import Shape, halvings

_SLOPE = 0.2


class Discriminator(nn.Module):
    """How real an image looks for its class: one number a row.

    Halving convolutions, then a dense layer; the class enters by projection. Classes come
    as weights `[rows, classes]`, so that hard (one-hot) and soft labels are one case.
    """

    def __init__(self, shape: Shape, classes: int, width: int, features: int) -> None:
        super().__init__()
        channels, height, wide = shape
        sizes = halvings(height, wide)
        counts = [channels, *(width * min(4, 2**i) for i in range(len(sizes) - 1))]
        self.halve = nn.ModuleList(
            nn.Conv2d(counts[i], counts[i + 1], 5, stride=2, padding=2)
            for i in range(len(counts) - 1)
        )
        self.norms = nn.ModuleList(group_norm(count) for count in counts[1:])
        self.dense = nn.Linear(counts[-1] * math.prod(sizes[-1]), features)
        self.real = nn.Linear(features, 1)
        self.of_class = nn.Linear(classes, features, bias=False)

    def forward(self, images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        hidden = 2.0 * images - 1.0
        for halve, norm in zip(self.halve, self.norms, strict=True):
            hidden = F.leaky_relu(norm(halve(hidden)), _SLOPE)
        hidden = F.leaky_relu(self.dense(hidden.flatten(1)), _SLOPE)
        looks: torch.Tensor = self.real(hidden).squeeze(1)
        fits: torch.Tensor = (self.of_class(classes) * hidden).sum(dim=1)
        return looks + fits


def group_norm(channels: int) -> nn.GroupNorm:
    """Groups of about eight channels."""
    groups = max(1, channels // 8)
    while channels % groups:
        groups -= 1
    return nn.GroupNorm(groups, channels)
