"""Labels that leave one by one, by randomised response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.privacy.plan.events import Event, RandomisedResponse
from understudy.privacy.plan.mechanisms.checks import check_positive
from understudy.privacy.plan.mechanisms.mechanism import Mechanism


@dataclass(frozen=True)
class LocalLabels(Mechanism):
    """One label of every record leaves once, by randomised response with this `epsilon`.

    Guarantee, per record under replace-one: `epsilon`-private, delta 0. Event: one
    randomised response. A device sends labels so (`LocalChannel`); no door does.
    """

    kind: ClassVar[str] = "local-labels"
    title: ClassVar[str] = "labels that left one by one, by randomised response"
    use_word: ClassVar[str] = "release"
    probe: ClassVar[str] = (
        "no value moves: it answers at random, and the odds of its answers are measured"
    )
    name: str
    epsilon: float
    part: str = "train"

    def events(self, uses: int) -> tuple[Event, ...]:
        return (RandomisedResponse(self.epsilon, uses),) if uses else ()

    def check(self) -> None:
        check_positive(self, "epsilon")

    def words(self) -> str:
        return (
            "A label of every record leaves by randomised response, at random often enough for "
            f"epsilon {self.epsilon:.4g}."
        )

    @classmethod
    def example(cls) -> LocalLabels:
        return cls("labels", epsilon=0.5)
