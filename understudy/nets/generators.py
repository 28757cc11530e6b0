"""Conditional generators: from latent values and class weights to images in [0, 1].

A `GeneratorSpec` says everything that is needed to build one again; it is what a saved
synthesizer holds next to its weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from understudy.errors import UserError, did_you_mean
from understudy.nets.sizes import Shape, halvings


@dataclass(frozen=True)
class GeneratorSpec:
    """kind: a key of `KINDS`. latent: random values per image. width: size of the layers.
    grid: cells a side of the spline generator; other kinds do not use it.
    """

    kind: str
    shape: Shape
    classes: int
    latent: int
    width: int
    grid: int = 0

    def build(self) -> nn.Module:
        """The module, with torch's own initial weights."""
        if self.kind not in KINDS:
            raise UserError(f"no generator {self.kind!r}; {did_you_mean(self.kind, KINDS)}")
        return KINDS[self.kind](self)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "shape": list(self.shape)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> GeneratorSpec:
        channels, height, width = data["shape"]
        return GeneratorSpec(**{**data, "shape": (channels, height, width)})


class SplineGenerator(nn.Module):
    """A coarse grid of values from dense layers, drawn out smoothly to the image.

    Strokes and garments are smooth at the scale of a pixel or two, and noise in a target
    is not: images that cannot be rough cannot follow it. It is also the cheapest kind.
    """

    rows: torch.Tensor
    columns: torch.Tensor

    def __init__(self, spec: GeneratorSpec) -> None:
        super().__init__()
        channels, height, width = spec.shape
        self._cells = (channels, min(spec.grid, height), min(spec.grid, width))
        self.dense = nn.Sequential(
            *_dense(spec.latent + spec.classes, spec.width),
            *_dense(spec.width, spec.width),
            nn.Linear(spec.width, math.prod(self._cells)),
        )
        self.register_buffer("rows", _smooth(height, self._cells[1]), persistent=False)
        self.register_buffer("columns", _smooth(width, self._cells[2]), persistent=False)

    def forward(self, latents: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        cells = self.dense(torch.cat([latents, classes], dim=1)).reshape(-1, *self._cells)
        return torch.sigmoid(self.rows @ (3.0 * cells) @ self.columns.T - 1.0)


class MerfGenerator(nn.Module):
    """The generator of the DP-MERF paper: two dense layers, two bilinear 5x5 stages."""

    def __init__(self, spec: GeneratorSpec) -> None:
        super().__init__()
        channels, height, width = spec.shape
        self._size = (height, width)
        self._base = (16, -(-height // 4), -(-width // 4))
        flat = math.prod(self._base)
        self.dense = nn.Sequential(
            *_dense(spec.latent + spec.classes, spec.width),
            nn.Linear(spec.width, flat),
            nn.BatchNorm1d(flat),
        )
        self.first = nn.Conv2d(16, 8, 5, padding=2)
        self.last = nn.Conv2d(8, channels, 5, padding=2)

    def forward(self, latents: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        hidden = self.dense(torch.cat([latents, classes], dim=1)).reshape(-1, *self._base)
        hidden = F.relu(self.first(F.interpolate(hidden, scale_factor=2.0, mode="bilinear")))
        hidden = F.interpolate(hidden, size=self._size, mode="bilinear")
        return torch.sigmoid(self.last(hidden))


class ResidualGenerator(nn.Module):
    """Residual upsampling stages whose normalisation knows the class."""

    def __init__(self, spec: GeneratorSpec) -> None:
        super().__init__()
        channels, height, width = spec.shape
        sizes = halvings(height, width)[::-1]
        counts = [spec.width * min(4, 2 ** (len(sizes) - 1 - i)) for i in range(len(sizes))]
        self._base = (counts[0], *sizes[0])
        self.dense = nn.Linear(spec.latent + spec.classes, math.prod(self._base))
        self.stages = nn.ModuleList(
            _UpStage(counts[i], counts[i + 1], spec.classes, sizes[i + 1])
            for i in range(len(sizes) - 1)
        )
        self.norm = ClassNorm(counts[-1], spec.classes)
        self.last = nn.Conv2d(counts[-1], channels, 3, padding=1)

    def forward(self, latents: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        hidden = self.dense(torch.cat([latents, classes], dim=1)).reshape(-1, *self._base)
        for stage in self.stages:
            hidden = stage(hidden, classes)
        return torch.sigmoid(self.last(F.relu(self.norm(hidden, classes))))


class ClassNorm(nn.Module):
    """Batch normalisation whose scale and shift come from the class weights."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.scale = nn.Linear(classes, channels)
        self.shift = nn.Linear(classes, channels)
        for layer, bias in ((self.scale, 1.0), (self.shift, 0.0)):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.constant_(layer.bias, bias)

    def forward(self, hidden: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        scale = self.scale(classes)[:, :, None, None]
        shift = self.shift(classes)[:, :, None, None]
        normal: torch.Tensor = self.norm(hidden)
        scaled: torch.Tensor = normal * scale + shift
        return scaled


class _UpStage(nn.Module):
    def __init__(self, before: int, after: int, classes: int, size: tuple[int, int]) -> None:
        super().__init__()
        self._size = size
        self.norm_first = ClassNorm(before, classes)
        self.first = nn.Conv2d(before, after, 3, padding=1)
        self.norm_second = ClassNorm(after, classes)
        self.second = nn.Conv2d(after, after, 3, padding=1)
        self.skip = nn.Conv2d(before, after, 1)

    def forward(self, hidden: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        short = F.interpolate(self.skip(hidden), size=self._size)
        hidden = F.interpolate(F.relu(self.norm_first(hidden, classes)), size=self._size)
        hidden = self.first(hidden)
        sharp: torch.Tensor = self.second(F.relu(self.norm_second(hidden, classes)))
        return short + sharp


KINDS: Mapping[str, Callable[[GeneratorSpec], nn.Module]] = {
    "spline": SplineGenerator,
    "merf": MerfGenerator,
    "residual": ResidualGenerator,
}


def _dense(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()


def _smooth(pixels: int, cells: int) -> torch.Tensor:
    """Weights [pixels, cells] that spread each cell as a bell over the pixels near it."""
    if cells == pixels:
        return torch.eye(pixels)
    cell = pixels / cells
    positions = torch.arange(pixels) + 0.5
    centres = (torch.arange(cells) + 0.5) * cell
    bells = torch.exp(-(positions[:, None] - centres).square() / (2 * (0.6 * cell) ** 2))
    return bells / bells.sum(dim=1, keepdim=True)
