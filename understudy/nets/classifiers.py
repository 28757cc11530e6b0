"""Classifiers that read a label from a record, by name.

Each is built for one feature shape and a number of classes, and takes float input in
[-1, 1]. Parameters are drawn from torch's global generator: a caller who needs a fixed
start seeds it around the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from torch import nn

from understudy.errors import UserError, did_you_mean
from understudy.nets.classifiers_papers import (
    elu_mlp,
    lenet5,
    mlp_100,
    three_convolutions,
    two_convolutions,
)
from understudy.nets.classifiers_parts import (
    BasicBlock,
    Builder,
    Shape,
    channels_last,
    image_shape,
)
from understudy.nets.classifiers_residual import resnet, resnext, wide_resnet


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
    pooling and ReLU; for larger images further 32-channel stages until the shorter side is
    at most 8; then one hidden layer of 128 and the logits. No normalisation and no dropout, so
    that it behaves alike in training and in use.
    """
    channels, height, width = image_shape("cnn", shape)
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
    return channels_last(nn.Sequential(*layers))


def resnet18(shape: Shape, classes: int) -> nn.Module:
    """ResNet-18 with the CIFAR stem.

    One 3x3 convolution without pooling; four stages of two basic blocks with 64, 128, 256
    and 512 channels, the last three halving the size; batch normalisation; global average;
    one linear layer.
    """
    channels, _, _ = image_shape("resnet18", shape)
    blocks: list[nn.Module] = []
    features = 64
    for out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [BasicBlock(features, out, stride), BasicBlock(out, out, 1)]
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
    return channels_last(network)


CLASSIFIERS: Mapping[str, Builder] = MappingProxyType(
    {
        "mlp": mlp,
        "cnn": cnn,
        "resnet18": resnet18,
        "resnet-110": resnet(110),
        "wrn-40-4": wide_resnet(40, 4, dropout=0.3),
        "resnext-29-8-4": resnext(29, groups=8, widen=4),
        "resnet-164": resnet(164),
        "wrn-28-10": wide_resnet(28, 10, dropout=0.3),
        "resnext-28-8-10": resnext(28, groups=8, widen=10),
        "lenet-5": lenet5,
        "mlp-15": elu_mlp(15),
        "mlp-60": elu_mlp(60),
        "mlp-100": mlp_100,
        "cnn-dp-sinkhorn": three_convolutions("cnn-dp-sinkhorn", whole_channels=True),
        "cnn-dpdm": three_convolutions("cnn-dpdm", whole_channels=False),
        "cnn-datalens": two_convolutions,
    }
)


def build_classifier(name: str, shape: Shape, classes: int) -> nn.Module:
    """The named classifier for features of this shape."""
    if name not in CLASSIFIERS:
        raise UserError(f"no classifier {name!r}; {did_you_mean(name, CLASSIFIERS)}")
    return CLASSIFIERS[name](shape, classes)


def _poolings(side: int) -> int:
    halvings = 2
    while side >> halvings > 8:
        halvings += 1
    return halvings
