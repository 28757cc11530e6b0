"""Utility: what a classifier learns from synthetic records that holds for real ones.

The interval of these rows is that of `intervals.mean_accuracy`: it covers the draw of the
records tested on and the seeds of training, not another synthetic set from the same method.
"""

from __future__ import annotations

from statistics import fmean
from typing import ClassVar

import numpy as np

from understudy.data.records import Records
from understudy.evaluate.case import Case, Part
from understudy.evaluate.intervals import mean_accuracy
from understudy.evaluate.metric import Bounds, Direction, Measurement, Metric, Need


class TransferAccuracy(Metric):
    """Accuracy on one part of classifiers trained on another.

    The epoch is chosen on a held-out share of the records trained on, never on those tested
    on; the mean over the seeds is reported, never the best. The reference is the same
    classifier trained on real training records and tested on real test records.
    """

    direction: ClassVar[Direction] = "higher"
    bounds: ClassVar[Bounds] = (0.0, 1.0)
    unit: ClassVar[str] = "fraction"
    learned: ClassVar[Part]
    tested: ClassVar[Part]

    def measure(self, case: Case) -> Measurement:
        tested = case.part(self.tested)
        accuracies = case.accuracies(self.learned, self.tested, self.tool)
        interval = mean_accuracy(accuracies, len(tested))
        reference = None
        if case.train is not None:
            reference = fmean(case.accuracies("train", "test", self.tool))
        return Measurement(
            value=interval.value,
            low=interval.low,
            high=interval.high,
            seeds=case.seeds,
            reference=reference,
            chance=majority_share(tested),
        )


class Gen2RealAccuracy(TransferAccuracy):
    """Train on synthetic records, test on real test records."""

    name = "gen2real accuracy"
    needs = frozenset({Need.LABEL, Need.CLASSIFIER})
    learned = "synthetic"
    tested = "test"


class Real2GenAccuracy(TransferAccuracy):
    """Train on real training records, test on synthetic records and their labels."""

    name = "real2gen accuracy"
    needs = frozenset({Need.LABEL, Need.CLASSIFIER, Need.TRAIN})
    learned = "train"
    tested = "synthetic"


def majority_share(records: Records) -> float:
    """Chance: the accuracy of always answering the most frequent class."""
    return float(np.bincount(records.labels).max() / len(records))
