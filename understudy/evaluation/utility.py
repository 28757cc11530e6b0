"""Utility: what a classifier learns from synthetic records that holds for real ones.

The interval of these rows is that of `intervals.mean_accuracy`: it covers the draw of the
records tested on and the seeds of training, not another synthetic set from the same method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.evaluation.case import Case, Part
from understudy.evaluation.intervals import ClassCounts, mean_accuracy, mean_balanced_accuracy
from understudy.evaluation.metric import Bounds, ClassRecall, Direction, Measurement, Metric, Need
from understudy.evaluation.protocol import Protocol
from understudy.evaluation.selection import BEST_ON_TEST, HELD_OUT, MEAN, RULES, TEST


class TransferAccuracy(Metric):
    """Accuracy on one part of classifiers trained on another; the mean over the seeds.

    The protocol's rule chooses the epoch; by default a held-out share of the records trained
    on, never those tested on. The reference is the same classifier, chosen by the same rule,
    trained on real training records and tested on real test records.
    """

    direction: ClassVar[Direction] = "higher"
    bounds: ClassVar[Bounds] = (0.0, 1.0)
    unit: ClassVar[str] = "fraction"
    learned: ClassVar[Part]
    tested: ClassVar[Part]

    def __init__(self, tool: str = "", selection: str = HELD_OUT) -> None:
        super().__init__(tool)
        self._selection = selection

    @property
    def selection(self) -> str:
        return self._selection

    @property
    def variant(self) -> str:
        return f"{self.tool}{RULES[self.selection].suffix}"

    def measure(self, case: Case) -> Measurement:
        tested = case.part(self.tested)
        accuracies, reference = self.trained(case)
        interval = mean_accuracy(accuracies, len(tested))
        return Measurement(
            value=interval.value,
            low=interval.low,
            high=interval.high,
            seeds=case.seeds,
            reference=reference,
            chance=majority_share(tested),
        )

    def trained(self, case: Case) -> tuple[tuple[float, ...], float | None]:
        """One accuracy for each seed, and the reference: all that classifiers are needed for."""
        accuracies = self.accuracies(case, self.learned, self.tested)
        if case.train is None or not case.protocol.real_reference:
            return accuracies, None
        return accuracies, fmean(self.accuracies(case, "train", "test"))

    def accuracies(self, case: Case, learned: Part, tested: Part) -> tuple[float, ...]:
        """One accuracy for each seed."""
        return case.accuracies(learned, tested, self.tool, self.selection)


class Gen2RealAccuracy(TransferAccuracy):
    """Train on synthetic records, test on real test records."""

    name = "gen2real accuracy"
    needs = frozenset({Need.LABEL, Need.CLASSIFIER})
    learned = "synthetic"
    tested = "test"

    @classmethod
    def instances(cls, protocol: Protocol) -> tuple[Metric, ...]:
        """Each classifier under each rule, then the protocol's figures over all of them."""
        single = [cls(name, rule) for name in protocol.classifiers for rule in protocol.selections]
        over_all = [
            Gen2RealSummary(summary, protocol.classifiers, rule)
            for summary in protocol.summaries
            for rule in protocol.selections
        ]
        # Where the epoch is chosen on test, the best and the best on test are one figure.
        accuracies = {metric.variant: metric for metric in (*single, *over_all)}.values()
        rule = protocol.selections[-1]
        return (*accuracies, *(Gen2RealBalanced(name, rule) for name in protocol.classifiers))


class Gen2RealBalanced(Gen2RealAccuracy):
    """The same classifiers, every class counting alike; with the recall of each class.

    Only under the sound rule. Chance is the share that guessing evenly gives, of the mean and of
    each class: always answering the majority reaches no more.
    """

    name = "gen2real balanced accuracy"

    def measure(self, case: Case) -> Measurement:
        synthetic, real = self._counts(case, "synthetic"), None
        if synthetic is None:
            raise UserError("version 0.1 measured these classifiers, and kept no classes")
        if case.train is not None and case.protocol.real_reference:
            real = self._counts(case, "train")
        interval = mean_balanced_accuracy(synthetic)
        classes = _class_recalls(case.test.schema.classes, synthetic, real)
        return Measurement(
            value=interval.value,
            low=interval.low,
            high=interval.high,
            seeds=case.seeds,
            reference=None if real is None else mean_balanced_accuracy(real).value,
            chance=1 / len(classes),
            classes=classes,
        )

    def _counts(self, case: Case, learned: Part) -> list[ClassCounts] | None:
        """For each seed, what was recognised of each class of the real test records; None where
        an earlier version measured that."""
        counts: list[ClassCounts] = []
        for figure in case.by_seed(learned, "test", self.tool, self.selection):
            figure.known_accuracy()
            if figure.by_class is None:
                return None
            counts.append(figure.by_class)
        return counts


def _class_recalls(
    names: Sequence[str], synthetic: Sequence[ClassCounts], real: Sequence[ClassCounts] | None
) -> tuple[ClassRecall, ...]:
    """The recall of each class that was tested, as the mean over the seeds."""

    def mean(by_seed: Sequence[ClassCounts], code: int) -> float:
        return fmean(counts[code][0] / counts[code][1] for counts in by_seed)

    return tuple(
        ClassRecall(name, tested, mean(synthetic, code), None if real is None else mean(real, code))
        for code, (name, (_, tested)) in enumerate(zip(names, synthetic[0], strict=True))
        if tested
    )


class Gen2RealSummary(Gen2RealAccuracy):
    """One figure over several classifiers; see `selection.SUMMARIES` for how."""

    def __init__(self, summary: str, classifiers: tuple[str, ...], selection: str) -> None:
        super().__init__(", ".join(classifiers), selection)
        self.summary = summary
        self.classifiers = classifiers

    @property
    def selection(self) -> str:
        return TEST if self.summary == BEST_ON_TEST else self._selection

    @property
    def variant(self) -> str:
        how = "mean" if self.summary == MEAN else "best"
        words = f"{how} of {self.tool}{RULES[self.selection].suffix}"
        if self.selection != self._selection:
            words += f"; epochs by {self._selection}"
        return words

    def accuracies(self, case: Case, learned: Part, tested: Part) -> tuple[float, ...]:
        table = [
            case.accuracies(learned, tested, name, self._selection) for name in self.classifiers
        ]
        by_seed = list(zip(*table, strict=True))
        if self.summary == MEAN:
            return tuple(fmean(row) for row in by_seed)
        if self.summary == BEST_ON_TEST:
            return tuple(max(row) for row in by_seed)
        return tuple(
            row[self._preferred(case, learned, tested, seed)]
            for row, seed in zip(by_seed, case.seeds, strict=True)
        )

    def _preferred(self, case: Case, learned: Part, tested: Part, seed: int) -> int:
        """The position of the classifier whose chosen epoch has the highest score."""
        scores = [
            case.figure(learned, tested, name, seed, self._selection).score or 0.0
            for name in self.classifiers
        ]
        return scores.index(max(scores))


class Real2GenAccuracy(TransferAccuracy):
    """Train on real training records, test on synthetic records and their labels.

    A benchmark's rule concerns the classifiers of synthetic records; here it would choose on
    records that this metric does not test, so the held-out rule takes its place.
    """

    name = "real2gen accuracy"
    needs = frozenset({Need.LABEL, Need.CLASSIFIER, Need.TRAIN})
    learned = "train"
    tested = "synthetic"

    @classmethod
    def instances(cls, protocol: Protocol) -> tuple[Metric, ...]:
        rule = HELD_OUT if protocol.rule.benchmark_only else protocol.selection
        return tuple(cls(name, rule) for name in protocol.classifiers)


_BY_NAME: Mapping[str, type[TransferAccuracy]] = MappingProxyType(
    {"gen2real": Gen2RealAccuracy, "real2gen": Real2GenAccuracy}
)


def needs_training(protocol: Protocol) -> bool:
    """Whether `train_for` has anything to do."""
    return any(name in _BY_NAME for name in protocol.metrics)


def learns_from_real(protocol: Protocol) -> bool:
    """Whether `train_for` cannot do without the real training records.

    If not, they serve nothing but the reference, which may be known from elsewhere.
    """
    looked_at = {RULES[rule].looks_at for rule in protocol.selections}
    return "real2gen" in protocol.metrics or "validation" in looked_at


def train_for(case: Case) -> None:
    """Every training that the protocol's utility metrics ask for; leaves `case.figures` filled.

    Needs torch and numpy alone. One that diverges is a figure that says so.
    """
    for kind in filter(None, map(_BY_NAME.get, case.protocol.metrics)):
        if Need.TRAIN in kind.needs and case.train is None:
            continue
        for metric in kind.instances(case.protocol):
            assert isinstance(metric, TransferAccuracy)
            with suppress(FloatingPointError):
                metric.trained(case)


def majority_share(records: Records) -> float:
    """Chance: the accuracy of always answering the most frequent class."""
    return float(np.bincount(records.labels).max() / len(records))
