"""A U-Net for diffusion, fit for per-record gradients and quick on a GPU.

    UNet(channels=1, image_size=28, classes=10, width=128, multipliers=(1, 1),
         blocks=(3, 1), attention=(7,), patch=2)
    forward(images [B, C, H, W], noise_level [B], labels [B]) -> [B, C, H, W]

It works on patches of `patch` x `patch` pixels, so that its convolutions run on few positions
of many channels: on a GPU the passes over activations cost more than the multiplications, and
this does twice the multiplications for each value that is read. Every layer is one whose
gradients are known record by record; none mixes records, drops out, or changes a tensor in
place, and no parameter is used outside of a layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from understudy.errors import UserError

_HEAD = 64
_FREQUENCIES = 32


@dataclass(frozen=True)
class UNetSpec:
    """Everything that is needed to build a U-Net again; what a saved model holds.

    image_size: pixels a side. classes: how many; the code `classes` itself means no class.
    width: channels of the first level; multipliers: of each level, times the width.
    blocks: residual blocks of each level, on the way down and again on the way up.
    attention: the sizes (positions a side) at which blocks are followed by attention.
    patch: pixels a side that are taken together at the input.
    output_gain: what the last convolution's output is multiplied by. Below one, that layer's
        weights are as much larger and its gradients smaller: of few weights and all positions,
        they are else the longest part of a record's gradient, and use up its clip.
    """

    channels: int
    image_size: int
    classes: int
    width: int = 128
    multipliers: tuple[int, ...] = (1, 1)
    blocks: tuple[int, ...] = (3, 1)
    attention: tuple[int, ...] = (7,)
    patch: int = 2
    output_gain: float = 1.0

    def __post_init__(self) -> None:
        for name in ("multipliers", "blocks", "attention"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.multipliers or len(self.blocks) != len(self.multipliers):
            raise UserError(
                f"blocks must give one number per level: {len(self.multipliers)} of them, "
                f"not {len(self.blocks)}."
            )
        if not 0 < self.output_gain < math.inf:
            raise UserError(f"output_gain must be a number above 0, not {self.output_gain}.")
        step = self.patch * 2 ** (len(self.multipliers) - 1)
        if self.image_size % step:
            raise UserError(
                f"image_size must be a multiple of {step} for patch {self.patch} and "
                f"{len(self.multipliers)} levels, not {self.image_size}."
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Positions a side, of each level."""
        return tuple(
            self.image_size // (self.patch * 2**level) for level in range(len(self.multipliers))
        )

    def build(self) -> UNet:
        return UNet(**asdict(self))

    def to_json(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


class UNet(nn.Module):
    """From noisy images, their noise level and class to what the loss asks for.

    `noise_level` is any number that tells how noisy a row is, of order one (EDM: a quarter
    of the logarithm of sigma). `labels` are class codes; `classes` stands for no class. The
    last convolution begins at zero, so an untrained network gives zero.
    """

    def __init__(
        self,
        channels: int,
        image_size: int,
        classes: int,
        width: int = 128,
        multipliers: Sequence[int] = (1, 1),
        blocks: Sequence[int] = (3, 1),
        attention: Sequence[int] = (7,),
        patch: int = 2,
        output_gain: float = 1.0,
    ) -> None:
        super().__init__()
        self.spec = UNetSpec(
            channels,
            image_size,
            classes,
            width,
            tuple(multipliers),
            tuple(blocks),
            tuple(attention),
            patch,
            output_gain,
        )
        counts = [width * multiplier for multiplier in self.spec.multipliers]
        inside = channels * patch**2
        self.noise = NoiseLevel(max(width, _HEAD))
        self.label = nn.Embedding(classes + 1, self.noise.features)
        self.enter = nn.Conv2d(inside, counts[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        self._add_levels(counts)
        self.middle = self._block(counts[-1], counts[-1], len(counts) - 1)
        self.norm = _norm(counts[0])
        self.leave = nn.Conv2d(counts[0], inside, 3, padding=1)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(_bias(self.leave))

    def forward(
        self, images: torch.Tensor, noise_level: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        about = F.silu(self.noise(noise_level) + self.label(labels))
        entering = _channels_last(F.pixel_unshuffle(images, self.spec.patch))
        hidden = _channels_last(self.enter(entering))
        kept: list[torch.Tensor] = []
        for layer in self.down:
            if isinstance(layer, Block):
                hidden = layer(hidden, about)
                kept.append(hidden)
            else:
                hidden = layer(hidden)
        hidden = self.middle(hidden, about)
        for layer in self.up:
            if isinstance(layer, Block):
                hidden = layer(torch.cat([hidden, kept.pop()], dim=1), about)
            else:
                hidden = layer(hidden)
        said: torch.Tensor = self.leave(F.silu(self.norm(hidden))) * self.spec.output_gain
        return F.pixel_shuffle(said, self.spec.patch)

    def _add_levels(self, counts: Sequence[int]) -> None:
        """Down: blocks, then a halving. Up: as many blocks, then a doubling."""
        last = len(counts) - 1
        for level, count in enumerate(counts):
            self.down.extend(self._block(count, count, level) for _ in range(self._blocks(level)))
            if level < last:
                self.down.append(nn.Conv2d(count, counts[level + 1], 3, stride=2, padding=1))
        for level in range(last, -1, -1):
            count = counts[level]
            self.up.extend(self._block(2 * count, count, level) for _ in range(self._blocks(level)))
            if level:
                self.up.append(Doubling(count, counts[level - 1]))

    def _blocks(self, level: int) -> int:
        return self.spec.blocks[level]

    def _block(self, entering: int, leaving: int, level: int) -> Block:
        attends = self.spec.sizes[level] in self.spec.attention
        return Block(entering, leaving, self.noise.features, attends)


class NoiseLevel(nn.Module):
    """Waves of a number, then two dense layers."""

    frequencies: torch.Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features
        frequencies = torch.logspace(-1, 2, _FREQUENCIES, base=2.0) * math.pi
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.first = nn.Linear(2 * _FREQUENCIES, features)
        self.second = nn.Linear(features, features)

    def forward(self, noise_level: torch.Tensor) -> torch.Tensor:
        angles = noise_level.float().unsqueeze(1) * self.frequencies
        waves = torch.cat([angles.cos(), angles.sin()], dim=1)
        said: torch.Tensor = self.second(F.silu(self.first(waves)))
        return said


class Block(nn.Module):
    """Two convolutions around what is known of a row, and attention where it is asked for."""

    def __init__(self, entering: int, leaving: int, known: int, attends: bool) -> None:
        super().__init__()
        self.first_norm = _norm(entering)
        self.first = nn.Conv2d(entering, leaving, 3, padding=1)
        self.scale = nn.Linear(known, 2 * leaving)
        self.second_norm = _norm(leaving)
        self.second = nn.Conv2d(leaving, leaving, 3, padding=1)
        self.past = nn.Conv2d(entering, leaving, 1) if entering != leaving else nn.Identity()
        self.attention = Attention(leaving) if attends else nn.Identity()
        _begin_small(self.second)

    def forward(self, hidden: torch.Tensor, about: torch.Tensor) -> torch.Tensor:
        inner = self.first(F.silu(self.first_norm(hidden)))
        scale, shift = self.scale(about)[:, :, None, None].chunk(2, dim=1)
        inner = F.silu(self.second_norm(inner) * (1 + scale) + shift)
        result: torch.Tensor = self.attention(self.past(hidden) + self.second(inner))
        return result


class Attention(nn.Module):
    """Every position looks at every other, of the same row."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.heads = _divisor(channels, max(1, channels // _HEAD))
        self.norm = _norm(channels)
        self.ask = nn.Conv2d(channels, 3 * channels, 1)
        self.answer = nn.Conv2d(channels, channels, 1)
        _begin_small(self.answer)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        rows, channels, high, wide = hidden.shape
        asked = self.ask(self.norm(hidden)).permute(0, 2, 3, 1)
        asked = asked.reshape(rows, high * wide, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(asked[0], asked[1], asked[2])
        together = seen.transpose(1, 2).reshape(rows, high, wide, channels).permute(0, 3, 1, 2)
        result: torch.Tensor = hidden + self.answer(together)
        return result


class Doubling(nn.Module):
    """Twice the size: every position four times, then a convolution."""

    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__()
        self.smooth = nn.Conv2d(entering, leaving, 3, padding=1)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        rows, channels, high, wide = hidden.shape
        # A view and one copy; interpolate's gradient is summed by atomic additions.
        fourfold = hidden.permute(0, 2, 3, 1)[:, :, None, :, None]
        fourfold = fourfold.expand(rows, high, 2, wide, 2, channels)
        larger = fourfold.reshape(rows, 2 * high, 2 * wide, channels).permute(0, 3, 1, 2)
        result: torch.Tensor = self.smooth(larger)
        return result


def _channels_last(images: torch.Tensor) -> torch.Tensor:
    """On a GPU, where convolutions are made for it: the layers after it keep it so, unless they
    cannot tell; images of one channel lie the same either way."""
    return images.contiguous(memory_format=torch.channels_last) if images.is_cuda else images


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(_divisor(channels, min(32, max(1, channels // 4))), channels)


def _divisor(number: int, most: int) -> int:
    """The largest number up to `most` that divides another without rest."""
    return next(n for n in range(most, 0, -1) if number % n == 0)


def _begin_small(layer: nn.Conv2d) -> None:
    """A residual branch begins almost shut; not shut, or no gradient would reach its inside."""
    with torch.no_grad():
        layer.weight.mul_(0.1)
        _bias(layer).zero_()


def _bias(layer: nn.Conv2d) -> torch.Tensor:
    assert layer.bias is not None
    return layer.bias
