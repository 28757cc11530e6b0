"""Mechanisms as another package would write them, and a way to have them installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from understudy.privacy.plan.mechanisms import NoisySum, registry
from understudy.privacy.plan.mechanisms.unit_sum import UnitSum

if TYPE_CHECKING:
    import pytest
    import torch


@dataclass(frozen=True)
class StretchedSum(UnitSum):
    """The sum over units times `stretch`, divided by it again once it is noisy."""

    kind: ClassVar[str] = "stretched-sum"
    title: ClassVar[str] = "noisy stretched sum"
    name: str
    clip: float
    sigma: float
    stretch: float = 2.0
    part: str = "train"

    @property
    def unit_norm(self) -> float:
        return self.clip

    @property
    def multiple(self) -> float:
        return self.stretch

    def words(self) -> str:
        return f"A sum is stretched by {self.stretch:g} and leaves once."

    @classmethod
    def example(cls) -> StretchedSum:
        return cls("stretched", clip=0.5, sigma=1.0)

    def shaped(self, total: torch.Tensor) -> torch.Tensor:
        return self.stretch * total

    def finished(self, noisy: torch.Tensor) -> torch.Tensor:
        return noisy / self.stretch


@dataclass(frozen=True)
class HalfSum(UnitSum):
    """A plain sum that says that it moves by half of what it moves by."""

    kind: ClassVar[str] = "half-sum"
    title: ClassVar[str] = "noisy sum"
    name: str
    sigma: float
    part: str = "train"

    @property
    def unit_norm(self) -> float:
        return 1.0

    @property
    def multiple(self) -> float:
        return 0.5

    def words(self) -> str:
        return "A sum leaves once."

    @classmethod
    def example(cls) -> HalfSum:
        return cls("half", sigma=1.0)


@dataclass(frozen=True)
class UnderstatedSum(NoisySum):
    """Our own plain sum, by a class that says that it moves by a tenth of what it moves by."""

    kind: ClassVar[str] = "understated-sum"

    @property
    def sensitivity(self) -> float:
        return self.clip / 10


def install(patch: pytest.MonkeyPatch) -> None:
    """Have them found as an installed package's would be."""
    found = tuple(
        registry.MechanismEntry(m.kind, f"{m.__module__}:{m.__name__}", "package stretched")
        for m in (StretchedSum, HalfSum, UnderstatedSum)
    )
    patch.setattr(registry, "installed", lambda *_: iter(found))
    patch.setattr(registry, "_discovered", lambda _: registry.MechanismRegistry.discover())
