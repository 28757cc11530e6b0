"""What the classifiers share: their types, checks of the input, layout and first weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from understudy.errors import UserError

Shape = tuple[int, ...]
Builder = Callable[[Shape, int], nn.Module]


class BasicBlock(nn.Module):
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
        self.shortcut = projection(features, out, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(cast(torch.Tensor, self.body(x) + self.shortcut(x)))


def projection(features: int, out: int, stride: int) -> nn.Module:
    """The shortcut of a residual block: nothing, or 1x1 convolution with normalisation."""
    if stride == 1 and features == out:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(features, out, 1, stride, bias=False), nn.BatchNorm2d(out))


def scaled_by_fan_out(network: nn.Module) -> nn.Module:
    """The network with convolutions drawn from N(0, 2 / (kernel area x output channels))."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def channels_last(network: nn.Module) -> nn.Module:
    """The same network with its filters laid out for the faster convolutions of a CPU."""
    return convert_conv2d_weight_memory_format(network, torch.channels_last)


def image_shape(name: str, shape: Shape, least: int = 8) -> tuple[int, int, int]:
    """Channels, height and width; features that are no images of this size are refused."""
    if len(shape) != 3 or min(shape[1:]) < least:
        raise UserError(
            f"classifier {name!r} needs images of at least {least}x{least} pixels, "
            f"not features of shape {list(shape)}; the mlp takes any shape."
        )
    return shape[0], shape[1], shape[2]
