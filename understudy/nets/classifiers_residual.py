"""Deep residual classifiers for images of 28 to 64 pixels: the three kinds of DPImageBench.

ResNet of depth 6n+2 (He et al. 2016, arXiv:1512.03385), wide ResNet (Zagoruyko and
Komodakis 2016, arXiv:1605.07146), ResNeXt (Xie et al. 2017, arXiv:1611.05431), each with
a 3x3 stem, three stages of which the last two halve the size, batch normalisation and one
linear layer on the global average.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from understudy.nets.classifiers_parts import (
    BasicBlock,
    Builder,
    Shape,
    channels_last,
    image_shape,
    projection,
    scaled_by_fan_out,
)

_STRIDES = (1, 2, 2)


def resnet(depth: int) -> Builder:
    """Basic blocks with 16, 32 and 64 channels, (depth - 2) / 6 in each stage."""

    def build(shape: Shape, classes: int) -> nn.Module:
        channels, _, _ = image_shape(f"resnet-{depth}", shape)
        blocks: list[nn.Module] = []
        features = 16
        for out, first in zip((16, 32, 64), _STRIDES, strict=True):
            for stride in (first, *(1 for _ in range((depth - 2) // 6 - 1))):
                blocks.append(BasicBlock(features, out, stride))
                features = out
        stem = (nn.Conv2d(channels, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        return _finished([*stem, *blocks], features, classes)

    return build


def wide_resnet(depth: int, width: int, dropout: float) -> Builder:
    """Pre-activated blocks with 16, 32 and 64 times `width` channels, (depth - 4) / 6 each."""

    def build(shape: Shape, classes: int) -> nn.Module:
        channels, _, _ = image_shape(f"wrn-{depth}-{width}", shape)
        blocks: list[nn.Module] = []
        features = 16
        for out, first in zip((16 * width, 32 * width, 64 * width), _STRIDES, strict=True):
            for stride in (first, *(1 for _ in range((depth - 4) // 6 - 1))):
                blocks.append(_WideBlock(features, out, stride, dropout))
                features = out
        stem = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        last = (nn.BatchNorm2d(features), nn.ReLU())
        return _finished([stem, *blocks, *last], features, classes)

    return build


def resnext(depth: int, groups: int, widen: int) -> Builder:
    """Grouped bottlenecks, (depth - 2) // 9 in each stage.

    The stages give out 64, 128 and 256 times `widen` channels; their 3x3 convolutions have
    64, 128 and 256 channels in each of the groups, whatever `widen` is.
    """

    def build(shape: Shape, classes: int) -> nn.Module:
        channels, _, _ = image_shape(f"resnext-{depth}-{groups}-{widen}", shape)
        blocks: list[nn.Module] = []
        features = 64
        for width, first in zip((64, 128, 256), _STRIDES, strict=True):
            for stride in (first, *(1 for _ in range((depth - 2) // 9 - 1))):
                blocks.append(
                    _GroupedBottleneck(features, groups * width, width * widen, stride, groups)
                )
                features = width * widen
        stem = (nn.Conv2d(channels, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        return _finished([*stem, *blocks], features, classes)

    return build


def _finished(layers: list[nn.Module], features: int, classes: int) -> nn.Module:
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, classes))
    return channels_last(scaled_by_fan_out(nn.Sequential(*layers, *head)))


class _WideBlock(nn.Module):
    """Normalisation and ReLU before each convolution, dropout between the two.

    Where the number of channels changes, the shortcut too starts after the first ReLU.
    """

    def __init__(self, features: int, out: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.BatchNorm2d(features), nn.ReLU())
        self.body = nn.Sequential(
            nn.Conv2d(features, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
        )
        self.shortcut: nn.Module | None = None
        if features != out:
            self.shortcut = nn.Conv2d(features, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        active = self.before(x)
        kept = x if self.shortcut is None else self.shortcut(active)
        return cast(torch.Tensor, kept + self.body(active))


class _GroupedBottleneck(nn.Module):
    """1x1, grouped 3x3 and 1x1 convolutions beside a shortcut."""

    def __init__(self, features: int, inner: int, out: int, stride: int, groups: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(features, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=groups, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(),
            nn.Conv2d(inner, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.shortcut = projection(features, out, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(cast(torch.Tensor, self.body(x) + self.shortcut(x)))
