"""Classifiers that read a label from a record, by name.

Each is built for one feature shape and a number of classes, and takes float input in
[-1, 1]. Parameters are drawn from torch's global generator: a caller who needs a fixed
start seeds it around the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType
from typing import cast

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from understudy.errors import UserError, did_you_mean

Shape = tuple[int, ...]
Builder = Callable[[Shape, int], nn.Module]


def mlp(shape: Shape, classes: int) -> nn.Module:
    """Two hidden layers, 256 and 128 wide, with ReLU; takes any feature shape."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(prod(shape), 256),
        nn.ReLU(),
        nn.Linear(256, 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )


def cnn(shape: Shape, classes: int) -> nn.Module:
    """A LeNet-class network for images with sides from 8 to 128.

    Two stages of 5x5 convolution (16, then 32 channels, padded to keep the size), 2x2 max
    pooling and ReLU; for larger images further 32-channel stages until the shorter side is at
    is at most 8; then one hidden layer of 128 and the logits. No normalisation and no dropout, so
    that it behaves alike in training and in use.
    """
    channels, height, width = _image_shape("cnn", shape)
    layers: list[nn.Module] = []
    features = channels
    for out in (16, *(32 for _ in range(_poolings(min(height, width)) - 1))):
        # ReLU after pooling is the same function, on a quarter of the values.
        layers += [nn.Conv2d(features, out, 5, padding=2), nn.MaxPool2d(2), nn.ReLU()]
        features, height, width = out, height // 2, width // 2
    layers += [
        nn.Flatten(),
        nn.Linear(features * height * width, 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    ]
    return _channels_last(nn.Sequential(*layers))


def resnet18(shape: Shape, classes: int) -> nn.Module:
    """ResNet-18 with the CIFAR stem.

    One 3x3 convolution without pooling; four stages of two basic blocks with 64, 128, 256
    and 512 channels, the last three halving the size; batch normalisation; global average;
    one linear layer.
    """
    channels, _, _ = _image_shape("resnet18", shape)
    blocks: list[nn.Module] = []
    features = 64
    for out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [_BasicBlock(features, out, stride), _BasicBlock(out, out, 1)]
        features = out
    network = nn.Sequential(
        nn.Conv2d(channels, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(features, classes),
    )
    return _channels_last(network)


CLASSIFIERS: Mapping[str, Builder] = MappingProxyType(
    {"mlp": mlp, "cnn": cnn, "resnet18": resnet18}
)


def build_classifier(name: str, shape: Shape, classes: int) -> nn.Module:
    """The named classifier for features of this shape."""
    if name not in CLASSIFIERS:
        raise UserError(f"no classifier {name!r}; {did_you_mean(name, CLASSIFIERS)}")
    return CLASSIFIERS[name](shape, classes)


class _BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is projected where the shape changes."""

    def __init__(self, features: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(features, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or features != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(features, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(cast(torch.Tensor, self.body(x) + self.shortcut(x)))


def _channels_last(network: nn.Module) -> nn.Module:
    """The same network with its filters laid out for the faster convolutions of a CPU."""
    return convert_conv2d_weight_memory_format(network, torch.channels_last)


def _image_shape(name: str, shape: Shape) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < 8:
        raise UserError(
            f"classifier {name!r} needs images of at least 8x8 pixels, "
            f"not features of shape {list(shape)}; the mlp takes any shape."
        )
    return shape[0], shape[1], shape[2]


def _poolings(side: int) -> int:
    halvings = 2
    while side >> halvings > 8:
        halvings += 1
    return halvings
