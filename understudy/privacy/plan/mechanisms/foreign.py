"""Mechanisms of other packages in a plan, so that it can be read where the package is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from understudy.errors import UserError
from understudy.privacy.plan.events import (
    DiscreteGaussian,
    Event,
    NonPrivate,
)
from understudy.privacy.plan.mechanisms.checks import check_counts
from understudy.privacy.plan.mechanisms.mechanism import EXACT, FLOAT, Mechanism


@dataclass(frozen=True)
class ForeignMechanism(Mechanism):
    """A planned mechanism whose package is not installed here: known by its events alone.

    Guarantee: none of its own. It is priced by the events that the plan states for all its planned
    uses, whole as soon as one use is spent, so never below them; no door runs it.
    """

    title: ClassVar[str] = "a mechanism of a package that is not installed here"
    probe: ClassVar[str] = "its package is not installed here"

    kind: str  # type: ignore[misc]  # another word in each instance, where others have one
    name: str
    part: str
    values: Mapping[str, Any]
    planned_uses: int
    stated: tuple[Event, ...]
    shipped_by: str

    @property
    def uses(self) -> int:
        return self.planned_uses

    @property
    def is_private(self) -> bool:  # type: ignore[override]  # told by its events
        return not any(isinstance(event, NonPrivate) for event in self.stated)

    @property
    def arithmetic(self) -> str:
        exact = all(isinstance(event, DiscreteGaussian) for event in self.stated)
        return EXACT if exact else FLOAT

    @property
    def noise_multiplier(self) -> float | None:
        sigma = self.values.get("sigma")
        return float(sigma) if isinstance(sigma, int | float) else None

    def events(self, uses: int) -> tuple[Event, ...]:
        return self.stated if uses else ()

    def check(self) -> None:
        check_counts(self, "planned_uses")

    def words(self) -> str:
        return (
            f"What {self.kind!r} of {self.shipped_by} does is not known here, where that is not "
            "installed; it is priced by the events that the plan states."
        )

    @property
    def caveat(self) -> str | None:
        return (
            f"{self.name!r} is a {self.kind!r} of {self.shipped_by}, which is not installed here: "
            "it was priced by the events that its plan states. Whether these follow from what it "
            "does was not checked; install the package to check that."
        )

    def written(self) -> dict[str, Any]:
        return {"name": self.name, "part": self.part, **self.values}

    @classmethod
    def example(cls) -> ForeignMechanism:
        raise UserError("a mechanism of a package that is not installed has no example.")
