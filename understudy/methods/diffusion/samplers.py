"""From noise to images in a few steps: Heun, DDIM, and EDM's stochastic sampler.

All three follow the same falling noise levels. DDIM takes one network pass a step and is
Euler's method in this parametrisation; Heun takes two and is of second order; EDM's
stochastic sampler is Heun's with fresh noise put back before each step (Karras et al. 2022,
algorithm 2). Post-processing: nothing here meets a record.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

Denoise = Callable[[torch.Tensor, float], torch.Tensor]
"""Noisy images at one noise level to clean ones."""

KnowingPasses = Callable[[torch.Tensor, float, torch.Tensor], torch.Tensor]
"""Noisy images at one noise level, and their class codes, to clean images."""

SAMPLERS = ("heun", "ddim", "edm")


@dataclass(frozen=True)
class SamplerSettings:
    """How images are drawn.

    name: one of SAMPLERS. steps: noise levels visited. highest, lowest, bend: the levels,
    evenly spaced after the power 1 / bend. guidance: how far to go beyond the conditional
    denoiser, away from the unconditional one (0: not at all). churn, churn_low, churn_high:
    for "edm", how much noise is put back over all steps, and between which levels.
    """

    name: str = "heun"
    steps: int = 18
    highest: float = 80.0
    lowest: float = 0.002
    bend: float = 7.0
    guidance: float = 0.0
    churn: float = 0.0
    churn_low: float = 0.0
    churn_high: float = 50.0

    @property
    def passes(self) -> int:
        """Network passes for one image."""
        a_step = 1 if self.name == "ddim" else 2
        last = 0 if self.name == "ddim" else 1
        return (a_step * self.steps - last) * (2 if self.guidance else 1)

    def levels(self) -> list[float]:
        """The noise levels, falling, and zero after them."""
        first, last = self.highest ** (1 / self.bend), self.lowest ** (1 / self.bend)
        share = [i / max(1, self.steps - 1) for i in range(self.steps)]
        return [(first + s * (last - first)) ** self.bend for s in share] + [0.0]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> SamplerSettings:
        return SamplerSettings(**data)


def draw_images(
    denoise: Denoise,
    noise: torch.Tensor,
    settings: SamplerSettings,
    random: torch.Generator,
    after_step: Callable[[], None] = lambda: None,
) -> torch.Tensor:
    """Images from standard normal `noise`; `random` feeds the churn alone."""
    levels = settings.levels()
    images = noise * levels[0]
    for level, following in itertools.pairwise(levels):
        images, level = _churned(images, level, settings, random)
        images = _step(denoise, images, level, following, second=settings.name != "ddim")
        after_step()
    return images


def guided(passes: KnowingPasses, codes: torch.Tensor, nobody: int, guidance: float) -> Denoise:
    """Classifier-free guidance (Ho and Salimans 2022), on denoised images.

    codes: the class of each image; nobody: the code of no class. Passes with and without a
    class are made as one batch.
    """
    if not guidance:
        return lambda images, level: passes(images, level, codes)
    both = torch.cat([codes, torch.full_like(codes, nobody)])

    def denoise(images: torch.Tensor, level: float) -> torch.Tensor:
        with_class, without = passes(torch.cat([images, images]), level, both).chunk(2)
        return with_class + guidance * (with_class - without)

    return denoise


def _churned(
    images: torch.Tensor, level: float, settings: SamplerSettings, random: torch.Generator
) -> tuple[torch.Tensor, float]:
    """Noise put back: images at a somewhat higher level."""
    within = settings.churn_low <= level <= settings.churn_high
    if settings.name != "edm" or not within or not settings.churn:
        return images, level
    raised = level * (1 + min(settings.churn / settings.steps, math.sqrt(2) - 1))
    fresh = torch.randn(images.shape, generator=random, device=images.device)
    return images + fresh * math.sqrt(raised**2 - level**2), raised


def _step(
    denoise: Denoise, images: torch.Tensor, level: float, following: float, *, second: bool
) -> torch.Tensor:
    slope = (images - denoise(images, level)) / level
    moved = images + (following - level) * slope
    if not second or following == 0.0:
        return moved
    there = (moved - denoise(moved, following)) / following
    return images + (following - level) * (slope + there) / 2
