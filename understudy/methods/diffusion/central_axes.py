"""Central axes: along what the images of a class differ most, from one release of second moments.

What a record's image is apart from the (released) mean of its class is told by the coefficients
of a few public waves. The record's vector is every product of two of them, in the block of its
class, beside one constant that counts it. The release is the sum of these vectors over all units
with noise; everything else here is post-processing of that sum. A class then is a mean and the
few directions that stand out of the noise: images drawn along them vary roughly as records do,
where the mean alone is one image.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from understudy.errors import UserError
from understudy.methods.diffusion.central_images import least_count
from understudy.nets.sizes import Shape
from understudy.privacy.door.batch import Batch
from understudy.privacy.sums.clipping import Blocks

_MOST_WAVES = 400
"""Products grow with their square: 80,200 numbers for each class, and for each record."""


@dataclass(frozen=True)
class AxesSettings:
    """What is summed. All of it is declared; nothing is measured on records.

    side: waves along each side of an image (at most). clip: the longest vector of a unit.
    mass: part of the clip's square that counts records.
    """

    shape: Shape
    classes: int
    side: int
    clip: float
    mass: float

    def __post_init__(self) -> None:
        channels, height, width = self.shape
        waves = channels * min(self.side, height) * min(self.side, width)
        if waves > _MOST_WAVES:
            raise UserError(
                f"setting 'central_axes_side' {self.side} makes {waves} waves of images of shape "
                f"{list(self.shape)}, and at most {_MOST_WAVES} can be told: set it to at most "
                f"{math.isqrt(_MOST_WAVES // channels)}."
            )

    @property
    def unit_mass(self) -> float:
        """What one record adds to the count of its block."""
        return self.clip * math.sqrt(self.mass)

    @property
    def room(self) -> float:
        """The longest list of coefficients of one record."""
        return math.sqrt(self.clip * math.sqrt(1 - self.mass))

    def waves(self) -> torch.Tensor:
        """Smooth public patterns `[waves, pixels]`, orthonormal: cosines, channel by channel."""
        channels, height, width = self.shape
        rows, columns = cosines(height, self.side), cosines(width, self.side)
        plane = torch.einsum("ay,bx->abyx", rows, columns).reshape(-1, height * width)
        return torch.kron(torch.eye(channels), plane)


def products_of(
    settings: AxesSettings, means: torch.Tensor
) -> Callable[[Batch], torch.Tensor | Blocks]:
    """A record's vector, a function of that record, the waves and the released means alone.

    means: `[classes, C, H, W]`, from an earlier release.
    Guarantee: its L2 norm is at most `clip`: the count is sqrt(mass) of it; the products of a
    list with itself, each pair once and times the root of two, are as long as the list
    squared, and the list is shortened to the root of what is left; all other blocks are zero
    (for probabilities as labels the blocks are weighted by them, which shortens further).
    """
    waves = settings.waves()
    centres = means.flatten(1).cpu() @ waves.T

    def products(batch: Batch) -> torch.Tensor | Blocks:
        device, labels = batch.features.device, batch.labels
        told, around = batch.features.flatten(1) @ waves.T.to(device), centres.to(device)
        if labels.ndim == 1:
            return Blocks(_vector(told - around[labels], settings), labels, settings.classes)
        return (labels[:, :, None] * _vector(told[:, None] - around, settings)).flatten(1)

    return products


@dataclass(frozen=True)
class CentralAxes:
    """Axes `[classes, axes, waves]` by their coefficients, as long as what varies along them.

    A class with fewer axes than another has zeros for the rest. waves: `[waves, pixels]`.
    """

    coefficients: torch.Tensor
    waves: torch.Tensor

    @staticmethod
    def read(noisy: torch.Tensor, settings: AxesSettings, count: int, noise: float) -> CentralAxes:
        """The axes that stand out of the noise, from the noisy sum.

        A block is divided by its own noisy count, or by half of what the declared count would
        give it if that is larger. noise, the standard deviation of the noise on the sum, says
        what is believed: the longest axis of noise alone lies about at a known edge. An axis
        beyond it is seen too long and turned; it is shown as long as makes the matrix of all
        that is shown the best guess, shorter than it is.
        """
        waves = settings.waves()
        blocks = noisy.double().cpu().reshape(settings.classes, -1)
        least = least_count(count, settings.classes)
        counts = (blocks[:, :1] / settings.unit_mass).clamp(min=least)
        matrices = matrices_of(blocks[:, 1:] / counts, len(waves))
        lengths, axes = _standing_out(matrices, noise / counts)
        return CentralAxes((lengths.unsqueeze(2) * axes).float(), waves)

    def to(self, device: torch.device) -> CentralAxes:
        return CentralAxes(self.coefficients.to(device), self.waves.to(device))

    def apart(self, labels: torch.Tensor, random: torch.Generator) -> torch.Tensor:
        """`[rows, pixels]`: for each label, how an image of it might differ from its mean."""
        size = (len(labels), self.coefficients.shape[1])
        steps = torch.randn(size, generator=random, device=random.device)
        return torch.einsum("na,naw->nw", steps, self.coefficients[labels]) @ self.waves


def _standing_out(
    matrices: torch.Tensor, deviations: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lengths `[classes, axes]` and directions `[classes, axes, waves]`, the longest first.

    deviations: of the noise on each class's products, `[classes, 1]`.
    """
    squares, axes = torch.linalg.eigh(matrices)
    edges, least = noise_edge(deviations, matrices.shape[1])
    kept = squares > least.clamp(min=torch.finfo(squares.dtype).eps)
    believed = torch.where(kept, (squares**2 - edges**2).clamp(min=0).sqrt(), 0.0)
    most = int(kept.sum(dim=1).max())
    lengths = believed.sqrt().flip(1)[:, :most]
    return lengths, axes.flip(2).transpose(1, 2)[:, :most]


def noise_edge(deviations: torch.Tensor, waves: int) -> tuple[torch.Tensor, torch.Tensor]:
    """How long the longest axis of noise alone is, and what hardly any is beyond.

    The edge of a symmetric matrix of noise is known for many waves; by Tracy and Widom about one
    matrix of noise in a hundred has an axis beyond the second, slightly larger, length.
    """
    edges = deviations * math.sqrt(2 * waves)
    return edges, edges * (1 + waves ** (-2 / 3))


def _vector(lists: torch.Tensor, settings: AxesSettings) -> torch.Tensor:
    """The count, and the products of a list that is not too long."""
    products = _products(_shortened(lists, settings.room))
    return torch.cat([torch.full_like(products[..., :1], settings.unit_mass), products], dim=-1)


def cosines(points: int, most: int) -> torch.Tensor:
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


def matrices_of(packed: torch.Tensor, side: int) -> torch.Tensor:
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
