"""The densely connected encoder of the generative filter's paper, and its decoder.

Table 5 of the paper gives growth 12, depth 82 and "12" repetitions of a layer; its own channel
counts use (82 - 4) / 6 = 13, and 13 make the depth 82. So 13 it is here; depth 76 gives 12.
What the tables leave open: the inner 1x1 convolution has four times the growth (as in
DenseNet-BC), the last layer sees the flattened map, and the decoder's widths.
Normalisation is over the batch, as published, or over groups of channels for DP-SGD, where
no layer may mix records.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from understudy.errors import UserError
from understudy.nets.discriminator import group_norm

NORMS = ("batch", "group")
_BLOCKS = 3
_INNER = 4
_DECODER_STAGES = 4


@dataclass(frozen=True)
class DenseNetSpec:
    """growth: channels that a layer adds. depth: 4 + 6 times the layers of a block.
    widths: channels of the decoder, from its first map (the smallest) to its last.
    norm: "batch" or "group".
    """

    kind: ClassVar[str] = "densenet"
    bernoulli: ClassVar[bool] = False
    shape: tuple[int, ...]
    latent: int
    growth: int
    depth: int
    widths: tuple[int, ...]
    norm: str

    def __post_init__(self) -> None:
        step = 2**_DECODER_STAGES
        if len(self.shape) != 3 or any(side < step or side % step for side in self.shape[1:]):
            raise UserError(
                f"the densenet encoder takes images whose sides are multiples of {step}, not "
                f"records of shape {list(self.shape)}; pass --size 64, or use the dense encoder."
            )
        if self.depth < 10 or (self.depth - 4) % 6:
            raise UserError(f"depth must be 4 + 6 x layers of a block (82, 76), not {self.depth}.")
        if len(self.widths) != 1 + _DECODER_STAGES:
            raise UserError(f"widths must name {1 + _DECODER_STAGES} numbers of channels.")
        if self.norm not in NORMS:
            raise UserError(f"norm must be {' or '.join(NORMS)}, not {self.norm!r}.")

    @property
    def layers(self) -> int:
        """Layers of each dense block."""
        return (self.depth - 4) // 6

    def encoder(self) -> nn.Module:
        """From images to mean and log-variance, side by side [rows, 2 * latent]."""
        return DenseNetEncoder(self)

    def decoder(self) -> nn.Module:
        """From codes to images, not bounded to [0, 1]."""
        return TransposedDecoder(self)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "shape": list(self.shape), "widths": list(self.widths)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> DenseNetSpec:
        return DenseNetSpec(
            tuple(int(side) for side in data["shape"]),
            int(data["latent"]),
            int(data["growth"]),
            int(data["depth"]),
            tuple(int(width) for width in data["widths"]),
            str(data["norm"]),
        )


class DenseNetEncoder(nn.Module):
    """Three dense blocks, each followed by a halving; then one linear layer."""

    def __init__(self, spec: DenseNetSpec) -> None:
        super().__init__()
        channels = 2 * spec.growth
        stages: list[nn.Module] = [nn.Conv2d(spec.shape[0], channels, 3, padding=1, bias=False)]
        for _ in range(_BLOCKS):
            for _ in range(spec.layers):
                stages.append(_DenseLayer(channels, spec.growth, spec.norm))
                channels += spec.growth
            stages.append(_Halving(channels, channels // 2, spec.norm))
            channels //= 2
        flat = channels * math.prod(side // 2**_BLOCKS for side in spec.shape[1:])
        self.stages = nn.Sequential(*stages, _norm(spec.norm, channels), nn.Flatten())
        self.code = nn.Linear(flat, 2 * spec.latent)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        code: torch.Tensor = self.code(self.stages(2.0 * images - 1.0))
        return code


class TransposedDecoder(nn.Module):
    """A linear layer to a small map, four doublings (3x3, ReLU, norm), a 5x5 to the image."""

    def __init__(self, spec: DenseNetSpec) -> None:
        super().__init__()
        base = tuple(side // 2**_DECODER_STAGES for side in spec.shape[1:])
        first = (spec.widths[0], *base)
        self.dense = nn.Sequential(nn.Linear(spec.latent, math.prod(first)), nn.Unflatten(1, first))
        stages: list[nn.Module] = []
        for before, after in itertools.pairwise(spec.widths):
            stages += [
                nn.ConvTranspose2d(before, after, 3, stride=2, padding=1, output_padding=1),
                nn.ReLU(),
                _norm(spec.norm, after),
            ]
        self.stages = nn.Sequential(*stages)
        self.last = nn.ConvTranspose2d(spec.widths[-1], spec.shape[0], 5, padding=2)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        # Zero is mid-grey, so that the first steps do not go into brightness alone.
        images: torch.Tensor = 0.5 + self.last(self.stages(self.dense(codes)))
        return images


class _DenseLayer(nn.Module):
    """Norm, ReLU, 1x1, norm, ReLU, 3x3; its output is added as further channels."""

    def __init__(self, channels: int, growth: int, norm: str) -> None:
        super().__init__()
        inner = _INNER * growth
        self.norm_first = _norm(norm, channels)
        self.first = nn.Conv2d(channels, inner, 1, bias=False)
        self.norm_second = _norm(norm, inner)
        self.second = nn.Conv2d(inner, growth, 3, padding=1, bias=False)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        new = self.first(F.relu(self.norm_first(maps)))
        new = self.second(F.relu(self.norm_second(new)))
        return torch.cat([maps, new], dim=1)


class _Halving(nn.Module):
    def __init__(self, before: int, after: int, norm: str) -> None:
        super().__init__()
        self.norm = _norm(norm, before)
        self.mix = nn.Conv2d(before, after, 1, bias=False)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(self.mix(F.relu(self.norm(maps))), 2)


def _norm(kind: str, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if kind == "batch" else group_norm(channels)
