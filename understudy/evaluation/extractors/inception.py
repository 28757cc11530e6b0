"""`inception-v3`: the network that FID and KID are defined on.

This is the Inception of the 2015-12-05 TensorFlow graph as ported to PyTorch, which differs
from the usual Inception-v3: padding does not count in average poolings, the pooling branch
of the last block takes the maximum, and there are 1008 outputs, where its file has them. The
state-dict keys are those of the port's file. Tests check layout, shapes and
pooling rules on random weights; agreement with the published features was not checked, for
want of the weights where this was written.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from understudy.data.weights import find_weights, place_of, weights_entry
from understudy.errors import UserError
from understudy.evaluation.extractors.extractor import Extractor, resize, to_rgb

WHOLE, FEATURES_ALONE = "inception-2015-12-05", "inception-2015-12-05-features"
"""The network in the catalog of weights, with and without its classes."""

_SIDE = 299


class Convolution(nn.Module):
    """Convolution without bias, batch normalisation, ReLU."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.bn(self.conv(x)))


def _across(inputs: int, outputs: int, length: int) -> Convolution:
    return Convolution(inputs, outputs, (1, length), padding=(0, length // 2))


def _down(inputs: int, outputs: int, length: int) -> Convolution:
    return Convolution(inputs, outputs, (length, 1), padding=(length // 2, 0))


class BlockA(nn.Module):
    """At 35x35: 1x1, 5x5 and double 3x3 branches beside an average pooling."""

    def __init__(self, inputs: int, pooled: int) -> None:
        super().__init__()
        self.branch1x1 = Convolution(inputs, 64, 1)
        self.branch5x5_1 = Convolution(inputs, 48, 1)
        self.branch5x5_2 = Convolution(48, 64, 5, padding=2)
        self.branch3x3dbl_1 = Convolution(inputs, 64, 1)
        self.branch3x3dbl_2 = Convolution(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = Convolution(96, 96, 3, padding=1)
        self.branch_pool = Convolution(inputs, pooled, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _join(
            self.branch1x1(x),
            self.branch5x5_2(self.branch5x5_1(x)),
            self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x))),
            self.branch_pool(_average(x)),
        )


class BlockB(nn.Module):
    """From 35x35 to 17x17."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch3x3 = Convolution(inputs, 384, 3, stride=2)
        self.branch3x3dbl_1 = Convolution(inputs, 64, 1)
        self.branch3x3dbl_2 = Convolution(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = Convolution(96, 96, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _join(
            self.branch3x3(x),
            self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x))),
            F.max_pool2d(x, 3, stride=2),
        )


class BlockC(nn.Module):
    """At 17x17: 7x7 convolutions taken apart into 1x7 and 7x1, once and twice."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.branch1x1 = Convolution(inputs, 192, 1)
        self.branch7x7_1 = Convolution(inputs, width, 1)
        self.branch7x7_2 = _across(width, width, 7)
        self.branch7x7_3 = _down(width, 192, 7)
        self.branch7x7dbl_1 = Convolution(inputs, width, 1)
        self.branch7x7dbl_2 = _down(width, width, 7)
        self.branch7x7dbl_3 = _across(width, width, 7)
        self.branch7x7dbl_4 = _down(width, width, 7)
        self.branch7x7dbl_5 = _across(width, 192, 7)
        self.branch_pool = Convolution(inputs, 192, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        twice = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        return _join(
            self.branch1x1(x),
            self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x))),
            self.branch7x7dbl_5(self.branch7x7dbl_4(twice)),
            self.branch_pool(_average(x)),
        )


class BlockD(nn.Module):
    """From 17x17 to 8x8."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch3x3_1 = Convolution(inputs, 192, 1)
        self.branch3x3_2 = Convolution(192, 320, 3, stride=2)
        self.branch7x7x3_1 = Convolution(inputs, 192, 1)
        self.branch7x7x3_2 = _across(192, 192, 7)
        self.branch7x7x3_3 = _down(192, 192, 7)
        self.branch7x7x3_4 = Convolution(192, 192, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seven = self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x)))
        return _join(
            self.branch3x3_2(self.branch3x3_1(x)),
            self.branch7x7x3_4(seven),
            F.max_pool2d(x, 3, stride=2),
        )


class BlockE(nn.Module):
    """At 8x8: expanded 3x3 branches; the last block pools by maximum, not by average."""

    def __init__(self, inputs: int, pool_by_maximum: bool) -> None:
        super().__init__()
        self.pool_by_maximum = pool_by_maximum
        self.branch1x1 = Convolution(inputs, 320, 1)
        self.branch3x3_1 = Convolution(inputs, 384, 1)
        self.branch3x3_2a = _across(384, 384, 3)
        self.branch3x3_2b = _down(384, 384, 3)
        self.branch3x3dbl_1 = Convolution(inputs, 448, 1)
        self.branch3x3dbl_2 = Convolution(448, 384, 3, padding=1)
        self.branch3x3dbl_3a = _across(384, 384, 3)
        self.branch3x3dbl_3b = _down(384, 384, 3)
        self.branch_pool = Convolution(inputs, 192, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        once = self.branch3x3_1(x)
        twice = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        pooled = F.max_pool2d(x, 3, stride=1, padding=1) if self.pool_by_maximum else _average(x)
        return _join(
            self.branch1x1(x),
            self.branch3x3_2a(once),
            self.branch3x3_2b(once),
            self.branch3x3dbl_3a(twice),
            self.branch3x3dbl_3b(twice),
            self.branch_pool(pooled),
        )


class InceptionV3(nn.Module):
    """From `[B, 3, 299, 299]` in [-1, 1] to the 2048 values of the last average pooling."""

    def __init__(self, with_classes: bool = True) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = Convolution(3, 32, 3, stride=2)
        self.Conv2d_2a_3x3 = Convolution(32, 32, 3)
        self.Conv2d_2b_3x3 = Convolution(32, 64, 3, padding=1)
        self.Conv2d_3b_1x1 = Convolution(64, 80, 1)
        self.Conv2d_4a_3x3 = Convolution(80, 192, 3)
        self.Mixed_5b = BlockA(192, pooled=32)
        self.Mixed_5c = BlockA(256, pooled=64)
        self.Mixed_5d = BlockA(288, pooled=64)
        self.Mixed_6a = BlockB(288)
        self.Mixed_6b = BlockC(768, width=128)
        self.Mixed_6c = BlockC(768, width=160)
        self.Mixed_6d = BlockC(768, width=160)
        self.Mixed_6e = BlockC(768, width=192)
        self.Mixed_7a = BlockD(768)
        self.Mixed_7b = BlockE(1280, pool_by_maximum=False)
        self.Mixed_7c = BlockE(2048, pool_by_maximum=True)
        self.fc = nn.Linear(2048, 1008) if with_classes else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = F.max_pool2d(x, 3, stride=2)
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x))
        x = F.max_pool2d(x, 3, stride=2)
        for block in self._blocks():
            x = block(x)
        return x.mean(dim=(2, 3))

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """The 1008 class scores, which the Inception Score is made of."""
        if self.fc is None:
            raise UserError(f"weights {FEATURES_ALONE} give no classes; take {WHOLE}.")
        return cast(torch.Tensor, self.fc(self(x)))

    def _blocks(self) -> Sequence[nn.Module]:
        return [module for name, module in self.named_children() if name.startswith("Mixed_")]


def build() -> Extractor:
    """The weights with classes; those without where only they are on this machine."""
    whole, alone = weights_entry(WHOLE), weights_entry(FEATURES_ALONE)
    only_features = place_of(whole) is None and place_of(alone) is not None
    network = load_network(find_weights(alone if only_features else whole).path)
    return Extractor(
        name="inception-v3",
        dimension=2048,
        network=network,
        prepare=prepare,
        batch_size=32,
        head=network.fc,
    )


def load_network(path: Path) -> InceptionV3:
    """The network filled from a state-dict file, which is opened without running any code."""
    try:
        state = _state_of(path)
        network = InceptionV3(with_classes="fc.weight" in state)
        network.load_state_dict(state)
    except (RuntimeError, TypeError, EOFError, pickle.UnpicklingError, SafetensorError) as error:
        raise UserError(f"weights {path} do not fit Inception-v3: {error}") from error
    return network


def _state_of(path: Path) -> dict[str, torch.Tensor]:
    if path.suffix == ".safetensors":
        return load_file(path)
    return cast(dict[str, torch.Tensor], torch.load(path, map_location="cpu", weights_only=True))


def prepare(images: torch.Tensor) -> torch.Tensor:
    """As the PyTorch port does: grey repeated, bilinear without smoothing, [-1, 1]."""
    return resize(to_rgb(images), _SIDE, antialias=False) / 127.5 - 1.0


def _average(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)


def _join(*branches: torch.Tensor) -> torch.Tensor:
    return torch.cat(branches, dim=1)
