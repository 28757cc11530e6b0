"""DP-SGD: noisy gradient sums over fresh Poisson samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.privacy.plan.events import Event, PoissonGaussian
from understudy.privacy.plan.mechanisms.checks import check_counts, check_rates
from understudy.privacy.plan.mechanisms.stepwise import Stepwise


@dataclass(frozen=True)
class DPSGD(Stepwise):
    """`steps` noisy gradient sums, each on a fresh Poisson sample of the units.

    Guarantee: every unit joins each step independently with probability `rate`; its
    whole gradient (summed over its records, averaged over `multiplicity` draws, over
    all models given) is clipped once to L2 norm `clip`; noise of standard deviation
    `sigma * clip` is added to the sum. Adding or removing one unit moves the sum by at
    most `clip`. Event: `steps` Poisson-sampled Gaussians with multiplier `sigma`.
    """

    kind: ClassVar[str] = "dp-sgd"
    title: ClassVar[str] = "noisy gradient sums on random samples (DP-SGD)"
    use_word: ClassVar[str] = "step"
    probe: ClassVar[str] = "understudy.audit.probes:step_cases"
    name: str
    steps: int
    rate: float
    clip: float
    sigma: float
    multiplicity: int = 1
    part: str = "train"

    @property
    def sensitivity(self) -> float:
        return self.clip

    def passes(self, count: int) -> float:
        return self.rate * count * self.multiplicity

    def events(self, uses: int) -> tuple[Event, ...]:
        return (PoissonGaussian(self.sigma, self.rate, uses),) if uses else ()

    def check(self) -> None:
        super().check()
        check_rates(self, "rate")
        check_counts(self, "multiplicity")

    def words(self) -> str:
        return (
            f"In each of {self.steps:,} steps every unit is drawn with probability "
            f"{self.rate:.4g}; the sum of the drawn units' gradients, each clipped to norm "
            f"{self.clip:g}, leaves with Gaussian noise of {self.sigma:.4g} times that norm."
        )

    @classmethod
    def example(cls) -> DPSGD:
        return cls("sgd", steps=4, rate=0.5, clip=0.5, sigma=1.0)
