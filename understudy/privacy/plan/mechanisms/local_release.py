"""Records that leave one by one, each with noise of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.privacy.plan.events import Event, LocalGaussian
from understudy.privacy.plan.mechanisms.checks import check_positive
from understudy.privacy.plan.mechanisms.mechanism import Mechanism


@dataclass(frozen=True)
class LocalRelease(Mechanism):
    """Every record leaves once, clipped to L2 norm `radius`, with its own Gaussian noise.

    Guarantee, per record under replace-one: sensitivity `2 * radius`, noise of standard
    deviation `sigma * 2 * radius`. Event: one local Gaussian with multiplier `sigma`.
    """

    kind: ClassVar[str] = "local-release"
    title: ClassVar[str] = "records that left one by one, each with its own noise"
    use_word: ClassVar[str] = "release"
    probe: ClassVar[str] = "understudy.audit.probes:local_cases"
    name: str
    radius: float
    sigma: float
    part: str = "train"

    @property
    def noise_multiplier(self) -> float | None:
        return self.sigma

    def events(self, uses: int) -> tuple[Event, ...]:
        return (LocalGaussian(self.sigma, uses),) if uses else ()

    def check(self) -> None:
        check_positive(self, "radius", "sigma")

    def words(self) -> str:
        return (
            f"Every record leaves by itself, clipped to norm {self.radius:g}, with Gaussian noise "
            f"of standard deviation {2 * self.sigma * self.radius:.4g} of its own."
        )

    @classmethod
    def example(cls) -> LocalRelease:
        return cls("local", radius=0.5, sigma=1.0)
