"""Central images: noisy means of a class, or of a few public cells of it, from one release.

A record's vector is its image, made small, in the block of its class and cell, beside one
constant that counts it. The release is the sum of these vectors over all units with noise;
everything else here is post-processing of that sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from understudy.nets.seeding import stream
from understudy.nets.sizes import Shape
from understudy.privacy.door.batch import Batch
from understudy.privacy.sums.clipping import Blocks

_COARSE = 3


@dataclass(frozen=True)
class CentralSettings:
    """What is summed. All of it is declared; nothing is measured on records.

    side: pixels a side of the small images (at most). clip: the longest vector of a unit.
    mass: part of the clip's square that counts records. ground: the pixel value that a small
    image counts from. cells: into how many public cells each class falls, a power of two.
    """

    shape: Shape
    classes: int
    side: int
    clip: float
    mass: float
    ground: float
    cells: int
    seed: int

    @property
    def small(self) -> Shape:
        channels, height, width = self.shape
        return channels, min(self.side, height), min(self.side, width)

    @property
    def width(self) -> int:
        """Values of one block."""
        return 1 + math.prod(self.small)

    @property
    def unit_mass(self) -> float:
        """What one record adds to the count of its block."""
        return self.clip * math.sqrt(self.mass)


def vectors_of(settings: CentralSettings) -> Callable[[Batch], torch.Tensor | Blocks]:
    """A record's vector, a function of that record and of the public seed alone.

    Guarantee: its L2 norm is at most `clip`: the count is sqrt(mass) of it, the image is
    shortened to what is left, and all other blocks are zero (for probabilities as labels
    the blocks are weighted by them, which shortens further).
    """
    room = settings.clip * math.sqrt(1 - settings.mass)
    planes = _planes(settings)

    def vector_of(batch: Batch) -> torch.Tensor | Blocks:
        small = F.adaptive_avg_pool2d(batch.features, settings.small[1:]).flatten(1)
        cell = _cells(small, planes.to(small.device))
        image = small - settings.ground
        norms = torch.linalg.vector_norm(image, dim=1, keepdim=True)
        image = image * (room / norms.clamp(min=room))
        values = torch.cat([torch.full_like(norms, settings.unit_mass), image], dim=1)
        labels, many = batch.labels, settings.classes * settings.cells
        if labels.ndim == 1:
            return Blocks(values, labels * settings.cells + cell, many)
        chosen = (cell[:, None] == torch.arange(settings.cells, device=cell.device)).float()
        weights = (labels[:, :, None] * chosen[:, None, :]).flatten(1)
        return (weights[:, :, None] * values[:, None, :]).flatten(1)

    return vector_of


def least_count(declared: int, classes: int) -> float:
    """What a class is divided by at least: half of its even share of the declared count."""
    return declared / (2 * classes)


@dataclass(frozen=True)
class CentralImages:
    """Images in [0, 1] `[blocks, C, H, W]`, their classes, and how many records each stands for."""

    images: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor

    @staticmethod
    def read(
        noisy: torch.Tensor, settings: CentralSettings, count: int, noise: float
    ) -> CentralImages:
        """Means from the noisy sum, by its own noisy counts and the declared one.

        A sum is divided by its noisy count, or by half of what the declared count would give
        it if that is larger: never by a count that was not noised. A cell's mean is its
        class's and what it is apart from that; noise, the standard deviation of the noise on
        the sum, says how much of this is believed.
        """
        blocks = noisy.reshape(settings.classes, settings.cells, settings.width)
        counts, sums = (blocks[..., :1] / settings.unit_mass).clamp(min=1), blocks[..., 1:]
        in_class, of_class = counts.sum(dim=1, keepdim=True), sums.sum(dim=1, keepdim=True)
        fewest = least_count(count, settings.classes)
        share, divisor = counts / in_class, counts.clamp(min=fewest / settings.cells)
        apart = (sums - of_class * share) / divisor
        believed = apart * _belief(apart, (1 - share) * (noise / divisor) ** 2)
        means = of_class / in_class.clamp(min=fewest) + believed
        small = (settings.ground + means).clamp(0, 1).reshape(-1, *settings.small)
        images = F.interpolate(
            small, settings.shape[1:], mode="bilinear", align_corners=False, antialias=False
        )
        labels = torch.arange(settings.classes).repeat_interleave(settings.cells)
        return CentralImages(images, labels, counts.flatten())

    def weights_of_classes(self) -> torch.Tensor:
        """`[classes, cells]`"""
        return self.weights.reshape(int(self.labels.max()) + 1, -1)

    def class_means(self) -> torch.Tensor:
        """`[classes, C, H, W]`: the images of a class together, by their noisy counts."""
        weights = self.weights_of_classes()
        shares = (weights / weights.sum(dim=1, keepdim=True)).reshape(*weights.shape, 1, 1, 1)
        return (self.images.reshape(*weights.shape, *self.images.shape[1:]) * shares).sum(dim=1)

    def to(self, device: torch.device) -> CentralImages:
        return CentralImages(
            self.images.to(device), self.labels.to(device), self.weights.to(device)
        )


def _belief(apart: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    """How much of a cell's distance from its class is more than noise's (James and Stein).

    Without it a cell of few records would be an image of noise.
    """
    squared = apart.square().mean(dim=2, keepdim=True)
    return (1 - variance / squared.clamp(min=1e-12)).clamp(min=0)


def _planes(settings: CentralSettings) -> torch.Tensor:
    """Public random patterns, coarse and of mean zero; the side of each makes the cell."""
    many = round(math.log2(settings.cells))
    random = stream(settings.seed, "cells")
    coarse = torch.randn(many, settings.small[0], _COARSE, _COARSE, generator=random)
    if not many:
        return torch.zeros(0, math.prod(settings.small))
    fine = F.interpolate(coarse, settings.small[1:], mode="bilinear", align_corners=True)
    flat = fine.flatten(1)
    return flat - flat.mean(dim=1, keepdim=True)


def _cells(small: torch.Tensor, planes: torch.Tensor) -> torch.Tensor:
    sides = (small.unsqueeze(1) * planes).sum(dim=2) > 0
    powers = 2 ** torch.arange(len(planes), device=small.device)
    return (sides * powers).sum(dim=1).long()
