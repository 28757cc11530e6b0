"""Class Means: the noisy mean image of each class, on a coarse grid.

A complete method to start from. Private records are used once, by a noisy sum; everything
after it is post-processing and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch.nn import functional as F

import understudy.authoring as us

SUM = "class sums"


@dataclass(frozen=True)
class ClassMeansConfig:
    """Settings; choose them on public data."""

    grid: int = us.setting(7, "cells a side of the mean images", low=1, high=64)
    spread: float = us.setting(0.15, "how far images differ from their mean", low=0.0, high=1.0)


class ClassMeansSynthesizer:
    """Images are their class's mean with smooth random differences."""

    def __init__(
        self, means: torch.Tensor, shape: Sequence[int], spread: float, schema: us.Schema
    ) -> None:
        label = schema.label_attribute
        self.schema = us.Schema((label,), label=label.name)
        self.means, self.shape, self.spread = means, tuple(shape), spread

    def sample(self, n: int, conditions: us.Conditions | None = None, seed: int = 0) -> us.Records:
        """Without conditions all classes come equally often, in random order."""
        labels = us.condition_codes(n, conditions, self.schema.attributes, seed)
        codes = labels[self.schema.label_attribute.name]
        random = torch.Generator().manual_seed(seed)
        means = self.means[torch.from_numpy(codes)]
        coarse = means + self.spread * torch.randn(means.shape, generator=random)
        fine = F.interpolate(coarse, self.shape[1:], mode="bilinear", align_corners=False)
        pixels = fine.clamp(0, 1).mul(255).round().byte().numpy()
        return us.Images(pixels, labels, self.schema)

    def save(self, folder: Path) -> None:
        facts = {"shape": self.shape, "spread": self.spread, "schema": self.schema.to_json()}
        us.save_state(folder, "means", us.State({"means": self.means}, facts))

    @classmethod
    def load(cls, folder: Path) -> ClassMeansSynthesizer:
        kept = us.load_state(folder, "means")
        facts, schema = kept.values, us.Schema.from_json(kept.values["schema"])
        return cls(kept.tensors["means"], facts["shape"], facts["spread"], schema)


class ClassMeans:
    """Guarantee: (epsilon, delta) of one Gaussian release under add-or-remove one unit.

    A record's vector is (1, its pixels on the grid) / sqrt(1 + values), laid into the block
    of its class. Pixels lie in [0, 1], so its L2 norm is at most 1; a unit's is the sum over
    its records, which the door clips to 1. How many records a class has is read from the
    same noisy sum, never counted.
    """

    info: ClassVar[us.MethodInfo] = us.MethodInfo(
        name="class-means",
        summary="one noisy mean image per class, on a coarse grid",
        paper="none: made from the template of `understudy bench new-method`",
        family="one-shot features",
        mechanism="one Gaussian release of a clipped sum",
    )
    Config: ClassVar[type] = ClassMeansConfig
    Output: ClassVar[type] = ClassMeansSynthesizer

    def spend(self, config: ClassMeansConfig, facts: us.Facts) -> us.Spend:
        """One noisy sum with clip 1, whatever the settings."""
        del config, facts

        def planned(sigma: float) -> Sequence[us.Mechanism]:
            return (us.NoisySum(SUM, clip=1.0, sigma=sigma),)

        return planned

    def fit(
        self,
        config: ClassMeansConfig,
        parts: us.Parts,
        plan: us.Plan,
        public: us.PublicInputs,
        context: us.Context,
    ) -> ClassMeansSynthesizer:
        del public, context
        private, planned = parts["train"], plan.mechanism(SUM, us.NoisySum)
        channels, height, width = private.shape
        grid = (min(config.grid, height), min(config.grid, width))
        classes, values = len(private.schema.classes), channels * grid[0] * grid[1]
        scale = (1 + values) ** -0.5

        def vector_of(batch: us.Batch) -> us.Blocks:
            """Each row from its own record alone: the door tests that before first use."""
            pixels = F.adaptive_avg_pool2d(batch.features, grid).flatten(1)
            ones = torch.ones(len(pixels), 1, device=pixels.device)
            return us.Blocks(scale * torch.cat([ones, pixels], dim=1), batch.labels, classes)

        noisy = private.noisy_sum(vector_of, clip=planned.clip, sigma=planned.sigma).cpu()
        sums = noisy.float().reshape(classes, 1 + values) / scale
        least = 0.1 * private.count / classes  # a class that the noise calls empty
        means = (sums[:, 1:] / sums[:, :1].clamp(min=least)).clamp(0, 1)
        return ClassMeansSynthesizer(
            means.reshape(classes, channels, *grid), private.shape, config.spread, private.schema
        )
