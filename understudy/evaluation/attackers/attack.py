"""What all attacks share: a version in their name, and the word when they show nothing."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from understudy.data.records import Array, Records
from understudy.errors import UserError
from understudy.evaluation.case import Case, Part
from understudy.evaluation.intervals import Interval
from understudy.evaluation.metric import Bounds, Direction, Measurement, Metric, Need
from understudy.evaluation.protocol import Protocol

PIXELS = "pixels"
MOST_RECORDS = 60_000
"""At most so many records of a part are looked at; more are drawn at random."""


class Attack(Metric):
    """A metric that tries to learn what a release should not tell.

    `version` counts changes of what the figure means: settings of an attack are part of its
    definition, and figures of two versions are not compared. For the owner lower is better.
    """

    version: ClassVar[int] = 1
    direction: ClassVar[Direction] = "lower"
    bounds: ClassVar[Bounds] = (0.0, 1.0)
    unit: ClassVar[str] = "fraction"
    needs = frozenset({Need.TRAIN})

    @property
    def title(self) -> str:
        return f"{self.name} v{self.version}"

    @property
    def variant(self) -> str:
        return self.tool


class DistanceAttack(Attack):
    """An attack by distances, in pixels and in the features of each extractor."""

    @classmethod
    def instances(cls, protocol: Protocol) -> tuple[Metric, ...]:
        return tuple(cls(space) for space in (PIXELS, *protocol.extractors))

    @property
    def extractor(self) -> str | None:
        return None if self.tool == PIXELS else self.tool

    def vectors(self, case: Case, part: Part) -> Array:
        """What distances are measured between: pixels, or features, in random order."""
        count = min(len(case.part(part)), MOST_RECORDS)
        if self.tool == PIXELS:
            return case.once(("pixels", part), lambda: case.drawn(part, count).features)
        if not case.test.is_images:
            raise UserError("features of an extractor need images")
        return case.features(part, self.tool, count)


def measured(
    found: Interval, *, reference: float, chance: float, seeds: tuple[int, ...], more: str = ""
) -> Measurement:
    """A measurement with the warning that it calls for.

    more: what else must be said of it, where it beats guessing.
    """
    note = shows_nothing(chance) if found.low <= chance else more
    return Measurement(
        found.value, found.low, found.high, seeds, reference, chance, note=note or None
    )


def shows_nothing(chance: float) -> str:
    return (
        f"this attack shows nothing: it does not beat guessing ({chance:.3g}), "
        "which does not mean that no attack would."
    )


def halves(records: Array) -> tuple[Array, Array]:
    """Two halves of records that are in random order: a control, and strangers to test on."""
    middle = len(records) // 2
    if not middle:
        raise UserError(f"this attack needs at least 2 held-out records, not {len(records)}.")
    return records[:middle], records[middle:]


def record_halves(records: Records) -> tuple[Records, Records]:
    """`halves` of whole records."""
    first, second = halves(np.arange(len(records)))
    return records.select(first), records.select(second)
