"""Raw records that leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.privacy.plan.events import Event, NonPrivate
from understudy.privacy.plan.mechanisms.mechanism import Mechanism


@dataclass(frozen=True)
class Reveal(Mechanism):
    """Raw records leave the door. No guarantee; the claim is then empirical."""

    kind: ClassVar[str] = "reveal"
    title: ClassVar[str] = "raw records left the door, without noise"
    use_word: ClassVar[str] = "reveal"
    is_private: ClassVar[bool] = False
    probe: ClassVar[str] = "no bound is declared: raw records leave"
    name: str
    reason: str
    part: str = "train"

    def events(self, uses: int) -> tuple[Event, ...]:
        return (NonPrivate(self.reason),) if uses else ()

    def check(self) -> None:
        """There is no number whose value could make the guarantee void."""

    def words(self) -> str:
        return f"Raw records leave without any protection: {self.reason}."

    @classmethod
    def example(cls) -> Reveal:
        return cls("reveal", "an example")
