"""Central axes: along what the images of a class differ most, from one release of second moments.

What a record's image is apart from the (released) mean of its class is told by the coefficients
of a few public waves. The record's vector is every product of two of them, in the block of its
class. The release is the sum of these vectors over all units with noise; everything else here is
post-processing of that sum. A class then is a mean and a few directions with their lengths, and
images drawn by them differ from one another as its records do, where its mean is one image.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from understudy.nets.sizes import Shape
from understudy.privacy.batch import Batch
from understudy.privacy.clipping import Blocks


@dataclass(frozen=True)
class AxesSettings:
    """What is summed. All of it is declared; nothing is measured on records.

    side: waves along each side of an image (at most). clip: the longest list of coefficients
    of one record; so its products, and what a unit adds, are at most `clip` squared.
    """

    shape: Shape
    classes: int
    side: int
    clip: float

    @property
    def longest(self) -> float:
        """The clip of the released sum."""
        return self.clip**2

    def waves(self) -> torch.Tensor:
        """Smooth public patterns `[waves, pixels]`, orthonormal: cosines, channel by channel."""
        channels, height, width = self.shape
        rows, columns = _cosines(height, self.side), _cosines(width, self.side)
        plane = torch.einsum("ay,bx->abyx", rows, columns).reshape(-1, height * width)
        return torch.kron(torch.eye(channels), plane)


def products_of(
    settings: AxesSettings, means: torch.Tensor
) -> Callable[[Batch], torch.Tensor | Blocks]:
    """A record's products, a function of that record, the waves and the released means alone.

    means: `[classes, C, H, W]`, from an earlier release.
    Guarantee: its L2 norm is at most `settings.longest`. Coefficients are shortened to `clip`;
    the products of a list with itself, each pair counted once and by the root of two, are as
    long as the list squared; all other blocks are zero (for probabilities as labels the
    blocks are weighted by them, which shortens further).
    """
    waves = settings.waves()
    centres = means.flatten(1).cpu() @ waves.T

    def products(batch: Batch) -> torch.Tensor | Blocks:
        device, labels = batch.features.device, batch.labels
        told, around = batch.features.flatten(1) @ waves.T.to(device), centres.to(device)
        if labels.ndim == 1:
            values = _products(_shortened(told - around[labels], settings.clip))
            return Blocks(values, labels, settings.classes)
        values = _products(_shortened(told[:, None] - around, settings.clip))
        return (labels[:, :, None] * values).flatten(1)

    return products


@dataclass(frozen=True)
class CentralAxes:
    """Directions `[classes, axes, C, H, W]`, each as long as records usually lie apart along it.

    A class with fewer axes than another has zeros for the rest.
    """

    directions: torch.Tensor

    @staticmethod
    def read(
        noisy: torch.Tensor, settings: AxesSettings, counts: torch.Tensor, noise: float
    ) -> CentralAxes:
        """The axes that stand out of the noise, from the noisy sum.

        counts: what each class is divided by; noised or declared, never a private count.
        noise: the standard deviation of the noise on the sum, which says what is believed: a
        matrix of noise alone has no axis beyond a known edge, and one beyond it is seen longer
        than it is.
        """
        waves = settings.waves().double()
        divisors = counts.double().cpu().reshape(-1, 1, 1)
        matrices = _matrices(noisy.double().cpu().reshape(settings.classes, -1), len(waves))
        squares, axes = torch.linalg.eigh(matrices / divisors)
        edges = noise * math.sqrt(2 * len(waves)) / divisors.squeeze(2)
        kept = squares > edges.clamp(min=1e-9)
        believed = torch.where(kept, (squares**2 - edges**2).clamp(min=0).sqrt(), 0.0)
        lengths = believed.sqrt().flip(1)[:, : int(kept.sum(dim=1).max())]
        longest = axes.flip(2)[:, :, : lengths.shape[1]].transpose(1, 2)
        directions = (lengths.unsqueeze(2) * longest) @ waves
        return CentralAxes(directions.float().reshape(*lengths.shape, *settings.shape))

    def to(self, device: torch.device) -> CentralAxes:
        return CentralAxes(self.directions.to(device))

    def apart(self, labels: torch.Tensor, random: torch.Generator) -> torch.Tensor:
        """For each label, how an image of it might differ from its mean."""
        size = (len(labels), self.directions.shape[1])
        steps = torch.randn(size, generator=random, device=random.device)
        return torch.einsum("na,nachw->nchw", steps, self.directions[labels])


def _cosines(points: int, most: int) -> torch.Tensor:
    """The slowest cosines over so many points, `[waves, points]`, orthonormal."""
    places = (torch.arange(points) + 0.5) * math.pi / points
    waves = torch.cos(torch.arange(min(most, points))[:, None] * places)
    norms: torch.Tensor = torch.linalg.vector_norm(waves, dim=1, keepdim=True)
    return waves / norms


def _shortened(lists: torch.Tensor, clip: float) -> torch.Tensor:
    norms: torch.Tensor = torch.linalg.vector_norm(lists, dim=-1, keepdim=True)
    return lists * (clip / norms.clamp(min=clip))


def _products(lists: torch.Tensor) -> torch.Tensor:
    """Products of every two values; the vector's norm is that of the list, squared."""
    first, second = _pairs(lists.shape[-1], lists.device)
    return lists[..., first] * lists[..., second] * _weights(first, second)


def _matrices(packed: torch.Tensor, side: int) -> torch.Tensor:
    """Symmetric matrices from such products, `[classes, side, side]`."""
    first, second = _pairs(side, packed.device)
    values = packed / _weights(first, second)
    matrices = packed.new_zeros(len(packed), side, side)
    matrices[:, first, second] = values
    matrices[:, second, first] = values
    return matrices


def _pairs(side: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = torch.triu_indices(side, side, device=device)
    return first, second


def _weights(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return torch.where(first == second, 1.0, math.sqrt(2))
