"""Gradients of the model of one shard, chosen anew and in secret for every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.privacy.plan.events import Event, OneOfShards
from understudy.privacy.plan.mechanisms.checks import check_counts
from understudy.privacy.plan.mechanisms.stepwise import Stepwise


@dataclass(frozen=True)
class OneOfShardsGradients(Stepwise):
    """`steps` noisy gradients, each of the sealed model of one of `shards` disjoint shards.

    Guarantee: for each step the door draws one shard uniformly from all `shards`, empty ones
    among them, and keeps the draw to itself. That shard's gradient (zero for an empty one) is
    clipped as a whole to L2 norm `clip`; adding or removing one unit replaces one shard, whose
    gradient moves by at most `2 * clip`. Noise of standard deviation `sigma * 2 * clip` is
    added. Event: `steps` Gaussians with multiplier `sigma` on one of `shards`, under replacing
    one shard. It holds because a model is a function of its shard, fresh randomness and released
    outputs alone, never of which shards were drawn (`Ensemble` sees to it).
    """

    kind: ClassVar[str] = "one-of-shards-gradients"
    probe: ClassVar[str] = "understudy.audit.probes_of_rounds:one_of_shards_cases"
    name: str
    shards: int
    steps: int
    clip: float
    sigma: float
    part: str = "train"

    @property
    def sensitivity(self) -> float:
        return 2 * self.clip

    def events(self, uses: int) -> tuple[Event, ...]:
        return (OneOfShards(self.sigma, self.shards, uses),) if uses else ()

    def check(self) -> None:
        super().check()
        check_counts(self, "shards")

    def words(self) -> str:
        return (
            f"In each of {self.steps:,} steps the model of one of {self.shards:,} disjoint shards, "
            f"drawn in secret, sends a gradient back, clipped to norm {self.clip:g}; it leaves "
            f"with Gaussian noise of standard deviation {self.sigma * self.sensitivity:.4g}."
        )

    @classmethod
    def example(cls) -> OneOfShardsGradients:
        return cls("one shard", shards=2, steps=4, clip=0.5, sigma=1.0)
