"""Noisy sums of per-unit vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from understudy.privacy.plan.mechanisms.checks import check_positive
from understudy.privacy.plan.mechanisms.mechanism import ADDED_LATER, FLOAT
from understudy.privacy.plan.mechanisms.one_shot import OneShot


@dataclass(frozen=True)
class NoisySum(OneShot):
    """Gaussian releases of sums of per-unit vectors, one unless `releases` says more.

    Guarantee: each unit's vector has L2 norm at most `clip`, so adding or removing one
    unit moves the sum by at most `clip`; noise of standard deviation `sigma * clip` is
    added to every coordinate. Event: `releases` Gaussians with multiplier `sigma`, or as many
    discrete Gaussians where `noise` is "exact" (see `OneShot`).
    """

    kind: ClassVar[str] = "noisy-sum"
    title: ClassVar[str] = "noisy sum over all units"
    use_word: ClassVar[str] = "release"
    probe: ClassVar[str] = "understudy.audit.probes:sum_cases"
    name: str
    clip: float
    sigma: float
    part: str = "train"
    noise: str = FLOAT
    releases: int = field(default=1, metadata={ADDED_LATER: "0.2"})

    @property
    def unit_norm(self) -> float:
        return self.clip

    def check(self) -> None:
        check_positive(self, "clip")
        super().check()

    def words(self) -> str:
        return (
            f"The sum over units of one vector each, of norm at most {self.clip:g}, leaves "
            f"{self.times} with Gaussian noise of {self.sigma:.4g} times that norm."
        )

    @classmethod
    def example(cls) -> NoisySum:
        return cls("sum", clip=0.5, sigma=1.0)
