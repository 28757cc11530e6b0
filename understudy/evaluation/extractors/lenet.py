"""`lenet-mnist`: LeNet-5 trained on MNIST, for grey digits."""

from __future__ import annotations

from collections import OrderedDict
from typing import cast

import torch
from torch import nn

from understudy.evaluation.extractors.extractor import Extractor, resize, to_grey
from understudy.evaluation.extractors.weights import find_by_name, load_arrays

_WEIGHTS = "lenet-mnist"
_SIDE = 32


class LeNet5(nn.Module):
    """Convolutions 6, 16 and 120 of 5x5 with tanh, two max poolings, then 84 and 10.

    Features are the 84 values after tanh, before the last layer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.convnet = nn.Sequential(
            OrderedDict[str, nn.Module](
                c1=nn.Conv2d(1, 6, 5),
                tanh1=nn.Tanh(),
                s2=nn.MaxPool2d(2),
                c3=nn.Conv2d(6, 16, 5),
                tanh3=nn.Tanh(),
                s4=nn.MaxPool2d(2),
                c5=nn.Conv2d(16, 120, 5),
                tanh5=nn.Tanh(),
            )
        )
        self.fc = nn.Sequential(
            OrderedDict[str, nn.Module](
                f6=nn.Linear(120, 84), tanh6=nn.Tanh(), f7=nn.Linear(84, 10)
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, self.fc[:2](self.convnet(x).flatten(1)))

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the ten digits, to check the weights on labelled images."""
        return cast(torch.Tensor, self.fc[2](self(x)))


def build() -> Extractor:
    """Weights from `lenet_mnist.npz`; grey pixels in [0, 1], resized to 32x32 (bilinear)."""
    network = LeNet5()
    load_arrays(network, find_by_name(_WEIGHTS))
    return Extractor(
        name="lenet-mnist",
        dimension=84,
        network=network,
        prepare=prepare,
        batch_size=256,
        head=network.fc[2],
    )


def prepare(images: torch.Tensor) -> torch.Tensor:
    return resize(to_grey(images) / 255.0, _SIDE)
