"""The denoiser's network for images of any size: a U-Net, framed where it must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from understudy.nets.sizes import Shape
from understudy.nets.unet import UNet, UNetSpec

_CLASSES = "label.weight"


@dataclass(frozen=True)
class NetworkSpec:
    """Everything that is needed to build a denoiser again."""

    shape: Shape
    unet: UNetSpec

    @staticmethod
    def of(
        shape: Shape,
        classes: int,
        width: int,
        multipliers: tuple[int, ...],
        blocks: tuple[int, ...],
        attention: tuple[int, ...],
        patch: int,
        output_gain: float = 1.0,
    ) -> NetworkSpec:
        """A network for images of this shape, on the smallest square that it can work on.

        attention: sizes of levels; one that no level has means the nearest, and 0 none.
        """
        step = patch * 2 ** (len(multipliers) - 1)
        side = -(-max(shape[1:]) // step) * step
        square = (shape[0], side, classes)
        unet = UNetSpec(*square, width, multipliers, blocks, (), patch, output_gain)
        asked = [size for size in attention if size]
        attends = {min(unet.sizes, key=lambda size: abs(size - wanted)) for wanted in asked}
        return NetworkSpec(shape, replace(unet, attention=tuple(sorted(attends))))

    @property
    def classes(self) -> int:
        """How many; the code of this value itself means no class."""
        return self.unet.classes

    @property
    def multiplications(self) -> float:
        """Roughly, of one forward pass, by the convolutions of the residual blocks."""
        unet, total = self.unet, 0.0
        for size, many, count in zip(unet.sizes, unet.multipliers, unet.blocks, strict=True):
            channels = many * unet.width
            total += size**2 * channels**2 * (2 * count * 18 + 10 * count)
        return total

    @property
    def bytes_a_pass(self) -> float:
        """Roughly, of what a training pass in float32 keeps for its gradients.

        28 values for each channel and position of a residual block: a network of 1.3 million
        parameters at 28x28 was seen to take 20 MB a pass.
        """
        unet = self.unet
        levels = zip(unet.sizes, unet.multipliers, unet.blocks, strict=True)
        return 4.0 * sum(28 * size**2 * many * unet.width * count for size, many, count in levels)

    def build(self) -> nn.Module:
        """The module, with its own initial weights from torch's generator."""
        network = self.unet.build()
        side = self.unet.image_size
        return network if self.shape[1:] == (side, side) else Framed(network, self.shape)

    def to_json(self) -> dict[str, Any]:
        return {"shape": list(self.shape), "unet": self.unet.to_json()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> NetworkSpec:
        channels, height, width = data["shape"]
        return NetworkSpec((channels, height, width), UNetSpec(**data["unet"]))


class Framed(nn.Module):
    """A U-Net for images that are not its square: a frame of zeros goes around them."""

    def __init__(self, unet: UNet, shape: Shape) -> None:
        super().__init__()
        self.unet = unet
        down, right = unet.spec.image_size - shape[1], unet.spec.image_size - shape[2]
        self._frame = (right // 2, right - right // 2, down // 2, down - down // 2)
        self._rows = slice(down // 2, down // 2 + shape[1])
        self._columns = slice(right // 2, right // 2 + shape[2])

    def forward(
        self, images: torch.Tensor, noise_level: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        said: torch.Tensor = self.unet(F.pad(images, self._frame), noise_level, labels)
        return said[..., self._rows, self._columns]


@torch.no_grad()
def take_over(network: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Load the weights of a like network that knows other classes.

    What those looked like tells nothing about ours, which keep the codes that they have: were
    all to begin as one, noisy steps would never tell them apart. "No class" is taken over.
    """
    ours = network.state_dict()
    for name, value in ours.items():
        found = weights[name]
        if name.endswith(_CLASSES):
            found = torch.cat([value[:-1], found[-1:]])
        ours[name] = found
    network.load_state_dict(ours)
