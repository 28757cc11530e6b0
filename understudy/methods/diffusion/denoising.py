"""What a denoiser computes and what it is trained for: EDM's preconditioning (Karras et al. 2022).

Images are in [-1, 1] here. A noise level is the standard deviation of the noise on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

Network = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Scaled noisy images, embedded noise levels and class codes, to raw outputs."""

EDM_DEVIATION = math.sqrt(1 / 3)
"""The standard deviation of pixels that are uniform in [-1, 1]; assumed, never measured."""


@dataclass(frozen=True)
class Preconditioning:
    """How a network's inputs and outputs are scaled, so that both have unit variance.

    deviation: the standard deviation that pixels are assumed to have.
    """

    deviation: float = EDM_DEVIATION

    def denoised(
        self, network: Network, noisy: torch.Tensor, levels: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """The clean images that the network expects behind noisy ones."""
        keep, scale = self._keep(levels), self._scale(levels)
        return keep * noisy + scale * self._raw(network, noisy, levels, labels)

    def losses(
        self,
        network: Network,
        images: torch.Tensor,
        noise: torch.Tensor,
        levels: torch.Tensor,
        labels: torch.Tensor,
    ) -> torch.Tensor:
        """One loss a row: the mean squared error of the network's own output.

        It equals EDM's loss, the squared error of the denoised image times
        (s^2 + d^2) / (s d)^2 for level s and deviation d, averaged over pixels.
        """
        noisy = images + noise * _per_image(levels)
        wanted = (images - self._keep(levels) * noisy) / self._scale(levels)
        raw = self._raw(network, noisy, levels, labels)
        return (raw.float() - wanted).square().flatten(1).mean(dim=1)

    def _raw(
        self, network: Network, noisy: torch.Tensor, levels: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        size = (_per_image(levels).square() + self.deviation**2).rsqrt()
        return network(size * noisy, levels.log() / 4, labels)

    def _keep(self, levels: torch.Tensor) -> torch.Tensor:
        squared = _per_image(levels).square()
        return self.deviation**2 / (squared + self.deviation**2)

    def _scale(self, levels: torch.Tensor) -> torch.Tensor:
        level = _per_image(levels)
        return level * self.deviation * (level.square() + self.deviation**2).rsqrt()


@dataclass(frozen=True)
class NoiseLevels:
    """Which noise levels a denoiser is trained at.

    kind: "log-normal", whose logarithm has mean `first` and standard deviation `second`
        (EDM, and DPDM's choice), or "log-uniform", whose logarithm lies evenly between
        `first` and `second` (what v-prediction with a uniform log-SNR trains at).
    """

    kind: str
    first: float
    second: float

    @property
    def draw(self) -> str:
        """The name of the random value that `of` takes; names say how it is distributed."""
        return "level" if self.kind == "log-normal" else "uniform_level"

    def of(self, values: torch.Tensor) -> torch.Tensor:
        """Levels from standard normal, or uniform, values."""
        if self.kind == "log-normal":
            return (self.first + self.second * values).exp()
        return (self.first + (self.second - self.first) * values).exp()


def _per_image(levels: torch.Tensor) -> torch.Tensor:
    return levels.reshape(-1, 1, 1, 1)
