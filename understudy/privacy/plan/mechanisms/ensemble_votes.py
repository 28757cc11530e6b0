"""Noisy votes of models trained on disjoint shards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from understudy.privacy.plan.mechanisms.ensemble_queries import EnsembleQueries


@dataclass(frozen=True)
class EnsembleVotes(EnsembleQueries):
    """`queries` noisy vote counts of models trained on disjoint shards.

    Guarantee: adding or removing one unit changes one shard's model, hence one vote per
    query: the counts move by at most sqrt(2). Noise of standard deviation
    `sigma * sqrt(2)`. Event: `queries` Gaussians with multiplier `sigma`; no discount
    for the number of shards.
    """

    kind: ClassVar[str] = "ensemble-votes"
    title: ClassVar[str] = "noisy votes of models on disjoint shards"
    use_word: ClassVar[str] = "query"
    probe: ClassVar[str] = "understudy.audit.probes:vote_cases"
    name: str
    shards: int
    queries: int
    sigma: float
    part: str = "train"

    def words(self) -> str:
        return (
            f"Models trained on {self.shards} disjoint shards vote on {self.queries:,} inputs; "
            "each count of votes leaves with Gaussian noise of standard deviation "
            f"{self.sigma * math.sqrt(2):.4g}."
        )

    @classmethod
    def example(cls) -> EnsembleVotes:
        return cls("votes", shards=2, queries=1, sigma=1.0)
