"""`random-conv`: fixed random convolutions, always at hand.

Random features see shape and texture but were trained for nothing: distances on them say
which of two sets is nearer to the real one, and are comparable only with themselves.
"""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

import numpy as np
import torch
from torch import nn

from understudy.evaluation.extractors.extractor import Extractor, resize, to_rgb

_SEED = 20_250_301
_SIDE = 32
_WIDTHS = (3, 32, 64, 64)


def build() -> Extractor:
    """Three stages of 3x3 convolution, ReLU and 2x2 average pooling at 32x32 pixels.

    The last 4x4 map is averaged into quarters: 64 channels x 2 x 2 = 256 features. Grey is
    repeated to three channels, pixels are scaled to [-1, 1], other sizes are resized
    (bilinear, smoothed where they shrink).
    """
    return Extractor(
        name="random-conv",
        dimension=_WIDTHS[-1] * 4,
        network=_network(),
        prepare=_prepare,
        batch_size=256,
    )


def _prepare(images: torch.Tensor) -> torch.Tensor:
    return resize(to_rgb(images), _SIDE) / 127.5 - 1.0


def _network() -> nn.Module:
    # RandomState's stream is frozen for good, which Generator's is not: the filters, and so
    # the features, stay the same across versions of numpy.
    source = np.random.RandomState(_SEED)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(_WIDTHS):
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        filters = source.standard_normal((outputs, inputs, 3, 3)) * sqrt(2 / (inputs * 9))
        convolution.weight = nn.Parameter(
            torch.from_numpy(filters.astype(np.float32)), requires_grad=False
        )
        layers += [convolution, nn.ReLU(), nn.AvgPool2d(2)]
    return nn.Sequential(*layers, nn.AvgPool2d(2), nn.Flatten())
