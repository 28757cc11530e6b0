"""Attribute inference: does the release tell a sensitive attribute of real records?

The attribute is the first that has the role `sensitive`, else the label. Attackers learn it
from the synthetic records and guess it of records that were fitted on. That an attribute can
be guessed better than by chance may be knowledge of the population, which is what synthetic
records are for; so held-out records are asked too, and the advantage is the difference.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import hypot, sqrt
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.data.records import Array, Records
from understudy.errors import UserError
from understudy.evaluation.attackers.attack import Attack, halves, measured
from understudy.evaluation.attackers.auroc import macro_auroc
from understudy.evaluation.attackers.guessers import LINEAR, NEIGHBOUR, guesses
from understudy.evaluation.case import Case
from understudy.evaluation.intervals import Interval, wilson
from understudy.evaluation.metric import Bounds, Measurement, Metric, Need, Row
from understudy.evaluation.protocol import Protocol

_MOST_ASKED = 10_000
_POPULATION = (
    "no more is shown of records that were fitted on than of held-out ones: "
    "this much is known of the population."
)

Numbers = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Answers:
    """What an attacker gives each class for some records, and what is true."""

    scores: Numbers
    truth: Codes

    @property
    def hits(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.scores.argmax(axis=1) == self.truth)

    @property
    def hard(self) -> Numbers:
        """1 for the class answered, 0 for the others."""
        return np.asarray(np.eye(self.scores.shape[1])[self.scores.argmax(axis=1)])

    def part(self, chosen: Codes) -> Answers:
        return Answers(self.scores[chosen], self.truth[chosen])


class AttributeInference(Attack):
    """One figure of one attacker, on members; the control is the same on held-out records.

    Intervals cover the draw of the records asked about, with release and attacker as they are.
    """

    needs = frozenset({Need.TRAIN})

    @classmethod
    def instances(cls, protocol: Protocol) -> tuple[Metric, ...]:
        return tuple(cls(name) for name in (LINEAR, *protocol.classifiers, NEIGHBOUR))

    def row(self, case: Case) -> Row:
        """The row names the attribute, which only the records know."""
        found = super().row(case)
        name = target_attribute(case)
        return replace(found, variant=f"{self.tool}, {name}") if name else found

    def measure(self, case: Case) -> Measurement:
        members, strangers = case.once(("attributes", self.tool), lambda: _ask(self.tool, case))
        found, control = self.figure(members), self.figure(strangers)
        seeds = (case.seed,) if self.tool in (LINEAR, NEIGHBOUR) else case.seeds
        return measured(
            found,
            reference=control.value,
            chance=self.chance(members.truth),
            seeds=seeds,
            more=_POPULATION if found.low <= control.high else "",
        )

    @abstractmethod
    def figure(self, answers: Answers) -> Interval:
        """The figure on some records."""

    @staticmethod
    @abstractmethod
    def chance(truth: Codes) -> float:
        """What guessing without the release gives."""


class AttributeAccuracy(AttributeInference):
    """The share of right answers; guessing answers the most frequent class."""

    name = "attribute inference, accuracy"

    def figure(self, answers: Answers) -> Interval:
        return wilson(float(answers.hits.mean()), len(answers.truth))

    @staticmethod
    def chance(truth: Codes) -> float:
        return float(np.bincount(truth).max() / len(truth))


class AttributeBalancedAccuracy(AttributeInference):
    """The mean over classes of the share of right answers.

    The interval joins the classes' own (Wilson) by the method of variance estimates recovery.
    """

    name = "attribute inference, balanced accuracy"

    def figure(self, answers: Answers) -> Interval:
        shares = [
            wilson(float(answers.hits[inside].mean()), int(inside.sum()))
            for inside in (answers.truth == code for code in np.unique(answers.truth))
        ]
        centre = sum(s.value for s in shares) / len(shares)
        down, up = (
            sqrt(sum(width**2 for width in widths)) / len(shares)
            for widths in ([s.value - s.low for s in shares], [s.high - s.value for s in shares])
        )
        return Interval(centre, centre - down, centre + up).within(0.0, 1.0)

    @staticmethod
    def chance(truth: Codes) -> float:
        return 1 / len(np.unique(truth))


class AttributeScoreRanking(AttributeInference):
    """AUROC of the attacker's scores, the mean over classes of each against the rest."""

    name = "attribute inference, AUROC of scores"

    def figure(self, answers: Answers) -> Interval:
        return macro_auroc(answers.scores, answers.truth).interval

    @staticmethod
    def chance(truth: Codes) -> float:
        del truth
        return 0.5


class AttributeLabelRanking(AttributeScoreRanking):
    """AUROC of hard answers: another quantity than that of scores, and never mixed with it."""

    name = "attribute inference, AUROC of hard labels"

    def figure(self, answers: Answers) -> Interval:
        return macro_auroc(answers.hard, answers.truth).interval


class AttributeAdvantage(AttributeInference):
    """Accuracy on members minus accuracy on held-out records; guessing gives 0.

    The interval is Newcombe's for a difference of two shares. The control takes the
    difference between two halves of the held-out records.
    """

    name = "attribute inference, advantage over held-out"
    bounds: ClassVar[Bounds] = (-1.0, 1.0)

    def measure(self, case: Case) -> Measurement:
        members, strangers = case.once(("attributes", self.tool), lambda: _ask(self.tool, case))
        one, other = (strangers.part(h) for h in halves(np.arange(len(strangers.truth))))
        return measured(
            difference(self.figure(members), self.figure(strangers)),
            reference=self.figure(one).value - self.figure(other).value,
            chance=0.0,
            seeds=(case.seed,) if self.tool in (LINEAR, NEIGHBOUR) else case.seeds,
        )

    def figure(self, answers: Answers) -> Interval:
        return wilson(float(answers.hits.mean()), len(answers.truth))

    @staticmethod
    def chance(truth: Codes) -> float:
        del truth
        return 0.0


def difference(first: Interval, second: Interval) -> Interval:
    """The difference of two independent shares, with Newcombe's limits."""
    value = first.value - second.value
    return Interval(
        value,
        value - hypot(first.value - first.low, second.high - second.value),
        value + hypot(first.high - first.value, second.value - second.low),
    )


def target_attribute(case: Case) -> str | None:
    """The attribute that is attacked: the first that some part calls sensitive, else the label."""
    parts = (case.synthetic, case.train, case.test)
    named = [name for part in parts if part is not None for name in part.schema.sensitive]
    return named[0] if named else case.test.schema.label


def _ask(attacker: str, case: Case) -> tuple[Answers, Answers]:
    """The attacker's answers about members and about held-out records."""
    name = target_attribute(case)
    if name is None:
        raise UserError("needs an attribute that is sensitive, or a label, and none was chosen")
    if name not in case.synthetic.schema.names:
        raise UserError(f"the release does not carry the attribute {name!r} to learn from")
    learned = _labelled(case.synthetic, name)
    asked = [_labelled(case.drawn(part, _MOST_ASKED), name) for part in ("train", "test")]
    if any(records.schema.classes != learned.schema.classes for records in asked):
        raise UserError(f"the classes of {name!r} differ between the release and the real records")
    features: Array = np.concatenate([records.features for records in asked])
    scores = guesses(attacker, learned, features, case)
    middle = len(asked[0])
    return (
        Answers(scores[:middle], asked[0].labels.astype(np.int64)),
        Answers(scores[middle:], asked[1].labels.astype(np.int64)),
    )


def _labelled(records: Records, name: str) -> Records:
    return records.with_schema(records.schema.with_roles(label=name))
