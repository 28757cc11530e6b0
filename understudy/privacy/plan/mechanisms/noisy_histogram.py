"""Noisy histograms of the units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from understudy.privacy.plan.mechanisms.checks import check_counts
from understudy.privacy.plan.mechanisms.mechanism import ADDED_LATER, FLOAT
from understudy.privacy.plan.mechanisms.one_shot import OneShot


@dataclass(frozen=True)
class NoisyHistogram(OneShot):
    """Gaussian releases of counts over `bins` bins, one unless `releases` says more.

    Guarantee: a unit's contribution, summed over its records, has L2 norm at most 1.
    Event: `releases` Gaussians with multiplier `sigma`, noise standard deviation `sigma`.
    With `noise` "exact" as many discrete Gaussians (see `OneShot`).
    """

    kind: ClassVar[str] = "noisy-histogram"
    title: ClassVar[str] = "noisy histogram"
    use_word: ClassVar[str] = "release"
    probe: ClassVar[str] = "understudy.audit.probes:histogram_cases"
    name: str
    bins: int
    sigma: float
    part: str = "train"
    noise: str = FLOAT
    releases: int = field(default=1, metadata={ADDED_LATER: "0.2"})

    @property
    def unit_norm(self) -> float:
        return 1.0

    def check(self) -> None:
        super().check()
        check_counts(self, "bins")

    def words(self) -> str:
        return (
            f"Counts of units in {self.bins} bins leave {self.times}, a unit counting for at most "
            f"1 in all, with Gaussian noise of standard deviation {self.sigma:.4g}."
        )

    @classmethod
    def example(cls) -> NoisyHistogram:
        return cls("histogram", bins=3, sigma=1.0)
