"""`squeezenet`: SqueezeNet 1.0 trained on ImageNet."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from understudy.evaluation.extractors.extractor import Extractor, resize, to_rgb
from understudy.evaluation.extractors.weights import find_by_name, load_arrays

_WEIGHTS = "squeezenet"
_SIDE = 227
_BGR_MEAN = (104.0, 117.0, 123.0)

# Squeeze width and expansion width of each fire module; pooling follows 4 and 8.
_FIRES = {
    2: (16, 64),
    3: (16, 64),
    4: (32, 128),
    5: (32, 128),
    6: (48, 192),
    7: (48, 192),
    8: (64, 256),
    9: (64, 256),
}


class Fire(nn.Module):
    """A 1x1 squeeze, then 1x1 and 3x3 expansions side by side."""

    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.s = nn.Conv2d(inputs, squeeze, 1)
        self.e1 = nn.Conv2d(squeeze, expand, 1)
        self.e3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        squeezed = F.relu(self.s(x))
        return torch.cat([F.relu(self.e1(squeezed)), F.relu(self.e3(squeezed))], dim=1)


class SqueezeNet(nn.Module):
    """Features are the average over positions of the last fire module: 512 values."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 96, 7, stride=2)
        inputs = 96
        for number, (squeeze, expand) in _FIRES.items():
            self.add_module(f"fire{number}", Fire(inputs, squeeze, expand))
            inputs = 2 * expand
        self.conv_final = nn.Conv2d(512, 1000, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._last_fire(x).mean(dim=(2, 3))

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the thousand ImageNet classes, to check the weights on labelled images."""
        return F.relu(self.conv_final(self._last_fire(x))).mean(dim=(2, 3))

    def _last_fire(self, x: torch.Tensor) -> torch.Tensor:
        x = _pool(F.relu(self.conv1(x)))
        for number in _FIRES:
            x = self.get_submodule(f"fire{number}")(x)
            if number in (4, 8):
                x = _pool(x)
        return x


def build() -> Extractor:
    """Weights from `squeezenet_v1.0_decoded.npz`.

    Grey is repeated to three channels; images are resized to 227x227 (bilinear, smoothed
    where they shrink), taken in the order blue, green, red, on the scale 0 to 255, minus
    104, 117 and 123. Poolings round sizes up, as in the original network.
    """
    network = SqueezeNet()
    load_arrays(network, find_by_name(_WEIGHTS))
    return Extractor(
        name="squeezenet",
        dimension=512,
        network=network,
        prepare=prepare,
    )


def prepare(images: torch.Tensor) -> torch.Tensor:
    mean = torch.tensor(_BGR_MEAN, device=images.device).view(1, 3, 1, 1)
    return resize(to_rgb(images), _SIDE).flip(1) - mean


def _pool(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x, 3, stride=2, ceil_mode=True)
