"""What the answers of an ensemble have in common: each query is one Gaussian release."""

from __future__ import annotations

from understudy.privacy.plan.events import Event, Gaussian
from understudy.privacy.plan.mechanisms.checks import check_counts, check_positive
from understudy.privacy.plan.mechanisms.mechanism import Mechanism


class EnsembleQueries(Mechanism):
    """`queries` uses over `shards` disjoint shards, each use a Gaussian release.

    There is no discount for the number of shards: every shard answers every query.
    """

    shards: int
    queries: int
    sigma: float

    @property
    def uses(self) -> int:
        return self.queries

    @property
    def noise_multiplier(self) -> float | None:
        return self.sigma

    def events(self, uses: int) -> tuple[Event, ...]:
        return (Gaussian(self.sigma, uses),) if uses else ()

    def check(self) -> None:
        check_positive(self, "sigma")
        check_counts(self, "shards", "queries")
