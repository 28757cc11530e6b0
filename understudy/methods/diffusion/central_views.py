"""How a denoiser is shown central images: a few blurred means, as if they were many images.

All of it is post-processing of a release, with randomness of the public seed. Images lie on the
generator's device, so that a GPU need not wait for its host.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.nn import functional as F

_BEND_SIDE, _BEND = 5, 0.06
_SOFTEST, _SHARPEST = 10.0, 60.0
_LOWEST_CUT, _HIGHEST_CUT = 0.2, 0.65
_DARKEST = 0.25
_SHADES = ((6, 0.25), (14, 0.1))
"""Coarse and fine shading: points a side, and how strong."""


def moved(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Each image a little turned, scaled and moved, so that few images do for many."""
    many = len(images)
    angle, size, across, down = _drawn(torch.rand, (4, many), random) * 2 - 1
    angle, size = angle * math.radians(10), 1 + size * 0.1
    cosine, sine = angle.cos() * size, angle.sin() * size
    first = torch.stack([cosine, -sine, across * 0.1], dim=1)
    second = torch.stack([sine, cosine, down * 0.1], dim=1)
    return _seen_through(images, _grid(images, torch.stack([first, second], dim=1)))


def as_shapes(
    images: torch.Tensor, share: float, ground: float, random: torch.Generator
) -> torch.Tensor:
    """About this share of the images as shapes, the others as they are.

    The mean of images that each have a sharp edge somewhere has a broad one. A shape is the
    mean bent, cut out at some brightness above the ground, where one of these images could
    have had its edge, and shaded: so the denoiser learns edges and surfaces too.
    """
    if not share:
        return images
    bent = _bent(images, random)
    offset = bent - ground
    size = offset.abs().amax(dim=1, keepdim=True).clamp(min=1e-6)
    highest = size.amax(dim=(1, 2, 3), keepdim=True)
    cut = highest * (_LOWEST_CUT + (_HIGHEST_CUT - _LOWEST_CUT) * _uniform(images, random))
    sharpness = _SOFTEST * (_SHARPEST / _SOFTEST) ** _uniform(images, random)
    inside = torch.sigmoid((size - cut) * sharpness / highest.clamp(min=0.1))
    reach = max(ground, 1 - ground)
    shapes = ground + reach * inside * _shade(images, random) * offset / size
    chosen = _uniform(images, random) < share
    return torch.where(chosen, shapes.clamp(0, 1), images)


def _shade(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """A brightness for each image, and what of it each pixel has."""
    shade = torch.ones_like(images[:, :1])
    for side, strength in _SHADES:
        shade = shade + strength * _field(images, side, random)
    return (_DARKEST + (1 - _DARKEST) * _uniform(images, random)) * shade


def _bent(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    shift = [_BEND * _field(images, _BEND_SIDE, random).squeeze(1) for _ in range(2)]
    still = torch.eye(2, 3, device=images.device).repeat(len(images), 1, 1)
    return _seen_through(images, _grid(images, still) + torch.stack(shift, dim=-1))


def _field(images: torch.Tensor, side: int, random: torch.Generator) -> torch.Tensor:
    """Standard normal values on a coarse grid, smooth in between."""
    coarse = _drawn(torch.randn, (len(images), 1, side, side), random)
    return F.interpolate(coarse, images.shape[2:], mode="bicubic", align_corners=True)


def _uniform(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    return _drawn(torch.rand, (len(images), 1, 1, 1), random)


def _grid(images: torch.Tensor, turned: torch.Tensor) -> torch.Tensor:
    return F.affine_grid(turned, list(images.shape), align_corners=False)


def _seen_through(images: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _drawn(
    draw: Callable[..., torch.Tensor], size: tuple[int, ...], random: torch.Generator
) -> torch.Tensor:
    return draw(size, generator=random, device=random.device)
