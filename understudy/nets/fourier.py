"""Random Fourier features: a kernel's feature map, as cosines and sines of projections.

The frequencies are drawn from the public seed. A component looks at the whole image, at
the image blurred (coarse shape, whatever the fine strokes do) or at one window of it;
these differ only in how frequencies are drawn, so the map's norm is 1 in every case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from understudy.nets.sizes import Shape


@dataclass(frozen=True)
class Component:
    """One Gaussian kernel.

    bandwidth: its squared bandwidth, as a mean squared difference per pixel (of a window,
        per pixel of the window); smaller sees finer differences.
    blur: standard deviation in pixels of the blur before comparing, 0 for none.
    window: side in pixels of the square window compared, 0 for the whole image.
    """

    bandwidth: float
    blur: float = 0.0
    window: int = 0


class FourierFeatures:
    """x -> [sqrt(mass), s cos(Wx), s sin(Wx)], of L2 norm 1 for every finite x.

    The first coordinate is constant: its sum over records is sqrt(mass) times their number.
    """

    def __init__(self, frequencies: torch.Tensor, mass: float) -> None:
        self.frequencies = frequencies
        self.mass = mass
        self.scale = math.sqrt((1 - mass) / len(frequencies))

    @property
    def width(self) -> int:
        return 1 + 2 * len(self.frequencies)

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Features `[rows, width]`; each row's depend on that row alone."""
        angles = rows.flatten(1) @ self.frequencies.T
        constant = angles.new_full((len(rows), 1), math.sqrt(self.mass))
        waves = torch.cat([angles.cos(), angles.sin()], dim=1)
        return torch.cat([constant, self.scale * waves], dim=1)


def draw_frequencies(
    components: Sequence[Component], count: int, shape: Shape, generator: torch.Generator
) -> torch.Tensor:
    """`count` frequencies `[count, pixels]`, shared evenly and mixed among components.

    Any consecutive run of them is itself a fair draw from all components.
    """
    drawn = torch.cat(
        [
            _of_component(component, -(-count // len(components)), shape, generator)
            for component in components
        ]
    )
    order = torch.randperm(len(drawn), generator=generator)
    return drawn[order[:count]]


def _of_component(
    component: Component, count: int, shape: Shape, generator: torch.Generator
) -> torch.Tensor:
    channels, height, width = shape
    drawn = torch.randn(count, *shape, generator=generator)
    pixels = channels * height * width
    if component.window:
        side = component.window
        drawn = drawn * _windows(count, side, height, width, generator)
        pixels = channels * min(side, height) * min(side, width)
    if component.blur:
        drawn = _blur(height, component.blur) @ drawn @ _blur(width, component.blur).T
    return drawn.flatten(1) / math.sqrt(component.bandwidth * pixels)


def _windows(
    count: int, side: int, height: int, width: int, generator: torch.Generator
) -> torch.Tensor:
    """Masks of randomly placed squares, which may hang over the border by a third."""
    down = _placed(count, side, height, generator)
    across = _placed(count, side, width, generator)
    return (down[:, :, None] * across[:, None, :]).unsqueeze(1)


def _placed(count: int, side: int, length: int, generator: torch.Generator) -> torch.Tensor:
    over = side // 3
    first = torch.randint(-over, max(1, length - side + over + 1), (count, 1), generator=generator)
    at = torch.arange(length)
    return ((at >= first) & (at < first + side)).float()


def _blur(length: int, deviation: float) -> torch.Tensor:
    """The Gaussian blur of a line of pixels, as a matrix; beyond the border it is dark."""
    radius = int(3 * deviation) + 1
    offsets = torch.arange(-radius, radius + 1).double()
    taps = torch.exp(-offsets.square() / (2 * deviation**2))
    apart = torch.arange(length)[:, None] - torch.arange(length)
    near = apart.abs() <= radius
    weights = torch.exp(-apart.double().square() / (2 * deviation**2)) / taps.sum()
    return torch.where(near, weights, 0.0).float()
