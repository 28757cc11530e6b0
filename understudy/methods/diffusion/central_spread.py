"""Central spread: how images of a class differ, where axes that stand out are not the whole of it.

All of it is post-processing of the release that central axes are read from. Few axes of a small
class stand out of its noise, and images that differ along these alone are too smooth, and too much
alike: a classifier takes for a sign of the class what is merely missing. What all classes share is
seen far better: how much images vary at each scale, and how their channels vary together, both
averaged over classes, places and directions. So a class is taken to vary as all do, but where it
stands out of the noise; and scales too small to be told vary by the power law of those that are,
as pictures of nearly anything do.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from understudy.methods.diffusion.central_axes import (
    AxesSettings,
    cosines,
    matrices_of,
    noise_edge,
)
from understudy.methods.diffusion.central_images import least_count

_STEEPEST, _FLATTEST = 4.0, 1.0
_LAST_SCALES = 3


@dataclass(frozen=True)
class CentralSpread:
    """Roots of what images of each class vary by in the waves that were told, and finer ones.

    coefficients: `[classes, waves, waves]`; waves: `[waves, pixels]`; finer: what every channel
    varies by in each wave that was not told, `[H, W]`; mixing: of channels, `[C, C]`.
    """

    coefficients: torch.Tensor
    waves: torch.Tensor
    finer: torch.Tensor
    mixing: torch.Tensor

    @staticmethod
    def read(
        noisy: torch.Tensor, settings: AxesSettings, count: int, noise: float
    ) -> CentralSpread:
        """The spread from the noisy sum; `noise` is the standard deviation of its noise.

        Blocks are divided by their own noisy counts, or by half of what the declared count would
        give them, as for axes. A class is what all classes share and its own differences from
        that, as far as these are longer than the longest of noise alone.
        """
        blocks = noisy.double().cpu().reshape(settings.classes, -1)
        counts = (blocks[:, :1] / settings.unit_mass).clamp(
            min=least_count(count, settings.classes)
        )
        matrices = matrices_of(blocks[:, 1:] / counts, len(settings.waves()))
        weights = (counts / counts.sum()).reshape(-1, 1, 1)
        shared = _Shared.of((weights * matrices).sum(dim=0), settings)
        common = shared.matrix()
        squares = common + _standing_out(matrices - common, noise / counts)
        finer, mixing = shared.beyond(*settings.shape[1:])
        return CentralSpread(
            _root(squares).float(), settings.waves(), finer.float(), mixing.float()
        )

    def to(self, device: torch.device) -> CentralSpread:
        held = (self.coefficients, self.waves, self.finer, self.mixing)
        return CentralSpread(*(values.to(device) for values in held))

    def apart(self, labels: torch.Tensor, random: torch.Generator) -> torch.Tensor:
        """`[rows, pixels]`: for each label, how an image of it might differ from its mean."""
        size = (len(labels), self.waves.shape[0])
        steps = torch.randn(size, generator=random, device=random.device)
        told = torch.einsum("na,nwa->nw", steps, self.coefficients[labels]) @ self.waves
        return told + self._untold(len(labels), random)

    def _untold(self, rows: int, random: torch.Generator) -> torch.Tensor:
        channels, (height, width) = len(self.mixing), self.finer.shape
        size = (rows, channels, height, width)
        drawn = torch.randn(size, generator=random, device=random.device) * self.finer
        mixed = torch.einsum("cd,ndab->ncab", self.mixing, drawn)
        down, across = (cosines(n, n).to(mixed.device) for n in (height, width))
        return (down.T @ mixed @ across).flatten(1)


@dataclass(frozen=True)
class _Shared:
    """What all classes share: at each scale, how channels vary together, `[scales, C, C]`.

    scales: of each wave `[high, wide]`, the distance from the wave that is constant, rounded.
    """

    squares: torch.Tensor
    scales: torch.Tensor

    @staticmethod
    def of(pooled: torch.Tensor, settings: AxesSettings) -> _Shared:
        channels, height, width = settings.shape
        scales = _scales(min(settings.side, height), min(settings.side, width))
        flat = scales.flatten()
        square = pooled.reshape(channels, len(flat), channels, len(flat))
        of_waves = torch.diagonal(square, dim1=1, dim2=3).permute(2, 0, 1)
        means = torch.zeros(int(flat.max()) + 1, channels, channels, dtype=pooled.dtype)
        means.index_add_(0, flat, of_waves)
        held = flat.bincount().clamp(min=1).reshape(-1, 1, 1)
        return _Shared(means / held, scales)

    def matrix(self) -> torch.Tensor:
        """As the square of a class that varies just as all do, `[waves, waves]`."""
        positive = _root(self.squares)
        positive = positive @ positive.transpose(1, 2)
        blocks = positive[self.scales.flatten()].permute(1, 2, 0)
        channels, waves = len(blocks), blocks.shape[2]
        return torch.diag_embed(blocks).permute(0, 2, 1, 3).reshape(channels * waves, -1)

    def beyond(self, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Of all waves of an image that are not told: how much they vary, and channels' mixing."""
        most = min(self.scales.shape) - 1
        level, slope = self._power_law(max(1, most))
        scale = _distances(height, width).clamp(min=1)
        finer = (level - slope * scale.log()).exp()
        finer[: self.scales.shape[0], : self.scales.shape[1]] = 0
        last = self.squares[max(1, most + 1 - _LAST_SCALES) : most + 1].sum(dim=0)
        root = _root(last)
        return finer.sqrt(), root / root.square().sum().clamp(min=1e-12).sqrt()

    def _power_law(self, most: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Level and slope of the logarithm of what scales 1 to `most` vary by."""
        scales = torch.arange(1, most + 1).double()
        traces = self.squares.diagonal(dim1=1, dim2=2).sum(dim=1)[1 : most + 1]
        heights, places = traces.clamp(min=1e-9).log(), scales.log()
        weights = self.scales.flatten().bincount()[1 : most + 1].double()
        weights = weights / weights.sum()
        place, height = (weights * places).sum(), (weights * heights).sum()
        spread = (weights * (places - place).square()).sum().clamp(min=1e-12)
        slope = -(weights * (places - place) * (heights - height)).sum() / spread
        slope = slope.clamp(_FLATTEST, _STEEPEST)
        return height + slope * place, slope


def _standing_out(differences: torch.Tensor, deviations: torch.Tensor) -> torch.Tensor:
    """What is left of `[classes, waves, waves]` when what noise alone could be is taken away."""
    values, axes = torch.linalg.eigh(differences)
    edges, least = noise_edge(deviations, differences.shape[1])
    shown = values.sign() * (values**2 - edges**2).clamp(min=0).sqrt()
    kept = torch.where(values.abs() > least, shown, 0.0)
    standing_out: torch.Tensor = axes @ torch.diag_embed(kept) @ axes.transpose(1, 2)
    return standing_out


def _root(squares: torch.Tensor) -> torch.Tensor:
    """A root of the nearest matrices that can be squares, `R R^T`."""
    values, axes = torch.linalg.eigh(squares)
    root: torch.Tensor = axes * values.clamp(min=0).sqrt().unsqueeze(-2)
    return root


def _distances(height: int, width: int) -> torch.Tensor:
    down, across = torch.arange(height).double(), torch.arange(width).double()
    return (down[:, None] ** 2 + across[None] ** 2).sqrt()


def _scales(height: int, width: int) -> torch.Tensor:
    return _distances(height, width).round().long()
