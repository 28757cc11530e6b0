"""Clipped aggregates: a function of a Poisson sample as a whole, such as a critic's gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.privacy.plan.events import Event, PoissonGaussian
from understudy.privacy.plan.mechanisms.checks import check_rates
from understudy.privacy.plan.mechanisms.stepwise import Stepwise


@dataclass(frozen=True)
class ClippedAggregate(Stepwise):
    """`steps` noisy vectors, each computed from a fresh Poisson sample of the units as a whole.

    Guarantee: every unit joins each step independently with probability `rate`. One vector is
    computed from all that joined (zero if nobody did), in any way, and clipped as a whole to L2
    norm `clip`. It is no sum over units: with one unit more it may be any other vector of that
    norm, so adding or removing one unit moves it by at most `2 * clip`. Noise of standard
    deviation `sigma * 2 * clip` is added. Event: `steps` Poisson-sampled Gaussians with
    multiplier `sigma`.
    """

    kind: ClassVar[str] = "clipped-aggregate"
    probe: ClassVar[str] = "understudy.audit.probes_of_rounds:aggregate_cases"
    name: str
    steps: int
    rate: float
    clip: float
    sigma: float
    part: str = "train"

    @property
    def sensitivity(self) -> float:
        return 2 * self.clip

    def passes(self, count: int) -> float:
        return self.rate * count

    def events(self, uses: int) -> tuple[Event, ...]:
        return (PoissonGaussian(self.sigma, self.rate, uses),) if uses else ()

    def check(self) -> None:
        super().check()
        check_rates(self, "rate")

    def words(self) -> str:
        return (
            f"In each of {self.steps:,} steps every unit is drawn with probability "
            f"{self.rate:.4g}; one vector computed from all drawn units together, clipped to norm "
            f"{self.clip:g}, leaves with Gaussian noise of standard deviation "
            f"{self.sigma * self.sensitivity:.4g}."
        )

    @classmethod
    def example(cls) -> ClippedAggregate:
        return cls("aggregate", steps=4, rate=0.5, clip=0.5, sigma=1.0)
