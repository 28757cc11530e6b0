"""One noisy histogram of the units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.privacy.plan.mechanisms.checks import check_counts
from understudy.privacy.plan.mechanisms.mechanism import FLOAT
from understudy.privacy.plan.mechanisms.one_shot import OneShot


@dataclass(frozen=True)
class NoisyHistogram(OneShot):
    """One Gaussian release of counts over `bins` bins.

    Guarantee: a unit's contribution, summed over its records, has L2 norm at most 1.
    Event: one Gaussian with multiplier `sigma`, noise standard deviation `sigma`. With
    `noise` "exact" one discrete Gaussian (see `OneShot`).
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

    @property
    def unit_norm(self) -> float:
        return 1.0

    def check(self) -> None:
        super().check()
        check_counts(self, "bins")

    def words(self) -> str:
        return (
            f"Counts of units in {self.bins} bins leave once, a unit counting for at most 1 in "
            f"all, with Gaussian noise of standard deviation {self.sigma:.4g}."
        )

    @classmethod
    def example(cls) -> NoisyHistogram:
        return cls("histogram", bins=3, sigma=1.0)
