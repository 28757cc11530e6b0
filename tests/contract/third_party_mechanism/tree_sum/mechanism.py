"""A mechanism of another package: a sum, and the sums of its pairs of neighbours besides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

import understudy.authoring as us


@dataclass(frozen=True)
class TreeSum(us.UnitSum):
    """The sum over units and the sums of its pairs of neighbours, once.

    Guarantee: each unit's vector has L2 norm at most `clip`. The squared norm of its pair sums is
    at most twice its own, (a + b)^2 <= 2 (a^2 + b^2), so adding or removing one unit moves both
    together by at most sqrt(3) * clip. Event: one Gaussian with multiplier `sigma`.
    """

    kind: ClassVar[str] = "tree-sum"
    title: ClassVar[str] = "noisy sum with its pairs"
    name: str
    leaves: int
    clip: float
    sigma: float
    part: str = "train"

    @property
    def unit_norm(self) -> float:
        return self.clip

    @property
    def width(self) -> int:
        return self.leaves

    @property
    def multiple(self) -> float:
        return math.sqrt(3)

    def check(self) -> None:
        us.check_positive(self, "clip")
        us.check_counts(self, "leaves")
        super().check()

    def words(self) -> str:
        return f"A sum of {self.leaves} numbers and its pairs leave once with Gaussian noise."

    @classmethod
    def example(cls) -> TreeSum:
        return cls("tree", leaves=6, clip=0.5, sigma=1.0)

    def shaped(self, total: torch.Tensor) -> torch.Tensor:
        return torch.cat([total, total.reshape(-1, 2).sum(dim=1)])

    def finished(self, noisy: torch.Tensor) -> torch.Tensor:
        """The least squares estimate of the sum: each pair moves by a third of its gap."""
        leaves, pairs = noisy[: self.leaves].reshape(-1, 2), noisy[self.leaves :]
        gap = pairs - leaves.sum(dim=1)
        return (leaves + gap[:, None] / 3).flatten()
