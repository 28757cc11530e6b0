"""What every mechanism says of itself, so that nothing else has to know which one it is.

A mechanism is one planned use of private records, whole: clipping, sampling, noise and count
together, so that they cannot disagree. Each is a frozen dataclass in a file of its own, named in
`builtin.json`, or shipped by another package. Speed settings live elsewhere (`Speed`) and can
change none of this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, Self

from understudy.privacy.plan.events import Event

EXACT = "exact"
FLOAT = "float"
NOISES = (EXACT, FLOAT)
"""The arithmetic that noise is drawn and added in: integers on a grid, or floating point."""


ADDED_LATER = "added later"
"""Metadata of a field that version 0.1 did not know; its default is what was done then."""


class Mechanism(ABC):
    """One planned use of private records: what is done, how often, and what it costs.

    Subclasses are frozen dataclasses; `name` and `part` are fields of theirs.
    """

    kind: ClassVar[str]
    """The word for it in plans, ledgers and claims, which never changes its meaning."""

    title: ClassVar[str]
    """What it is, as a few words of a table."""

    use_word: ClassVar[str] = "use"
    """What one use of it is called there; its plural ends in s or ies."""

    is_private: ClassVar[bool] = True
    """Whether it adds noise at all."""

    is_session: ClassVar[bool] = False
    """Whether a method holds it over many uses, and may open it again when all are spent."""

    can_be_exact: ClassVar[bool] = False
    """Whether its noise can be drawn and added in whole numbers; then it has a field `noise`."""

    probe: ClassVar[str]
    """`package.module:function` that gives an audit its `Probe`s: how far one unit moves what it
    releases (see `understudy.audit.probes`); where nothing is released that moves, the
    reason, as words."""

    name: str
    part: str

    @property
    def uses(self) -> int:
        """How many uses are planned."""
        return 1

    @property
    def arithmetic(self) -> str:
        """The arithmetic of its noise."""
        return FLOAT

    @property
    def noise_multiplier(self) -> float | None:
        """Noise standard deviation over sensitivity, or None where noise has no such form."""
        return None

    @abstractmethod
    def events(self, uses: int) -> tuple[Event, ...]:
        """What so many of its uses cost; no use costs nothing, and more uses never cost less."""

    @abstractmethod
    def check(self) -> None:
        """Refuse numbers for which the stated guarantee would be void (see `checks`)."""

    @abstractmethod
    def words(self) -> str:
        """What it does with private records, as one sentence for readers of a report."""

    @classmethod
    @abstractmethod
    def example(cls) -> Self:
        """A small one with valid numbers, as tests and audits try it."""

    @property
    def caveat(self) -> str | None:
        """What whoever checks a claim that rests on it must be told, if anything."""
        return None

    def written(self) -> dict[str, Any]:
        """Its fields as a plan writes them, in an order that stays.

        One that came after version 0.1 (`ADDED_LATER`) is left out at its default, so that what
        could be planned then is written as it was.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        later = {f.name: f.default for f in fields(self) if ADDED_LATER in f.metadata}  # type: ignore[arg-type]
        return {k: v for k, v in values.items() if k not in later or v != later[k]}

    def with_arithmetic(self, noise: str) -> Mechanism:
        """The same mechanism with noise of this arithmetic, if it has a choice."""
        del noise
        return self
