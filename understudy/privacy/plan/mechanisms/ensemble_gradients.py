"""Noisy sums of gradients that models trained on disjoint shards send back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.privacy.plan.mechanisms.checks import check_positive
from understudy.privacy.plan.mechanisms.ensemble_queries import EnsembleQueries


@dataclass(frozen=True)
class EnsembleGradients(EnsembleQueries):
    """`queries` noisy sums of gradients that shard models send back to an input.

    Guarantee: each shard's whole gradient is clipped to L2 norm `clip`; adding or
    removing one unit *replaces* one shard's gradient, so the sum moves by at most
    `2 * clip`. Noise of standard deviation `sigma * 2 * clip`. Event: `queries`
    Gaussians with multiplier `sigma`.
    """

    kind: ClassVar[str] = "ensemble-gradients"
    title: ClassVar[str] = "noisy gradients of models on disjoint shards"
    use_word: ClassVar[str] = "query"
    probe: ClassVar[str] = "understudy.audit.probes:gradient_cases"
    name: str
    shards: int
    queries: int
    clip: float
    sigma: float
    part: str = "train"

    def check(self) -> None:
        super().check()
        check_positive(self, "clip")

    def words(self) -> str:
        return (
            f"Models trained on {self.shards} disjoint shards send {self.queries:,} gradients "
            f"back, each clipped to norm {self.clip:g} a shard; their sums leave with Gaussian "
            f"noise of standard deviation {2 * self.sigma * self.clip:.4g}."
        )

    @classmethod
    def example(cls) -> EnsembleGradients:
        return cls("gradients", shards=2, queries=1, clip=0.5, sigma=1.0)
