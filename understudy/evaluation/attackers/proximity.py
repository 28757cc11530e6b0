"""Nearest neighbours: do synthetic records lie nearer to the records that were fitted on?

Training records and held-out ones are put together. A release that is independent of both
finds its nearest record among the training ones as often as their share of the whole says,
whatever the law of the data: that share is guessing. The control puts other held-out records
in the place of the synthetic ones.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from understudy.data.records import Array
from understudy.evaluation.attackers.attack import Attack, DistanceAttack, halves, measured
from understudy.evaluation.attackers.search import CPU, Neighbours, Numbers, nearest
from understudy.evaluation.case import Case
from understudy.evaluation.intervals import Interval, clopper_pearson, wilson
from understudy.evaluation.metric import Measurement, Metric, Need
from understudy.evaluation.protocol import Protocol

_SHARPEST = 0.1

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Surroundings:
    """Some records among training and held-out ones: their two nearest, and guessing."""

    found: Neighbours
    training: int
    held_out: int

    @property
    def chance(self) -> float:
        return self.training / (self.training + self.held_out)

    @property
    def credits(self) -> Numbers:
        """1 for each record nearest to a training record, 0 for a held-out one.

        Where one of each is equally near, the record gets what guessing would.
        """
        of_training = self.found.positions < self.training
        tied = self.found.distances[:, 0] == self.found.distances[:, 1]
        undecided = tied & (of_training[:, 0] != of_training[:, 1])
        return np.where(undecided, self.chance, of_training[:, 0].astype(float))

    @property
    def ratios(self) -> Numbers:
        """Nearest distance over second-nearest; 1 where both are 0."""
        first, second = self.found.distances[:, 0], self.found.distances[:, 1]
        return np.divide(first, second, out=np.ones_like(first), where=second > 0)

    def share(self, chosen: Mask | slice) -> Interval:
        """The share of the chosen records that is nearest to a training record.

        The real records are the sample, not the synthetic ones: many that crowd around one
        real record say no more than one. The interval is Wilson's for as many independent
        trials as have the variance of these crowds.
        """
        _, crowds = np.unique(self.found.positions[chosen, 0], return_counts=True)
        trials = float(crowds.sum() ** 2 / (crowds**2).sum())
        return wilson(float(self.credits[chosen].mean()), trials)


def surroundings(
    records: Array, training: Array, held_out: Array, device: torch.device = CPU
) -> Surroundings:
    """The two nearest of all real records around each of these."""
    known = np.concatenate([training, held_out])
    found = nearest(records, known, 2, device=device)
    return Surroundings(found, len(training), len(held_out))


class _Proximity(DistanceAttack):
    """A share of synthetic records, and the same of held-out records in their place."""

    def measure(self, case: Case) -> Measurement:
        around, control = case.once(("surroundings", self.tool), lambda: self._look(case))
        return measured(
            self.share(around),
            reference=self.share(control).value,
            chance=around.chance,
            seeds=(case.seed,),
        )

    @abstractmethod
    def share(self, around: Surroundings) -> Interval:
        """The figure for one set of records."""

    def _look(self, case: Case) -> tuple[Surroundings, Surroundings]:
        held_out, strangers = halves(self.vectors(case, "test"))
        training = self.vectors(case, "train")
        return (
            surroundings(self.vectors(case, "synthetic"), training, held_out, case.device),
            surroundings(strangers, training, held_out, case.device),
        )


class ClosestRecord(_Proximity):
    """DCR: the share of synthetic records whose closest real record was fitted on."""

    name = "closest record (DCR), share of training"

    def share(self, around: Surroundings) -> Interval:
        return around.share(slice(None))


class SharpestRatio(_Proximity):
    """NNDR: the same share among the synthetic records that point most at one real record.

    These are the tenth with the lowest ratio of nearest to second-nearest distance, in which
    a few near copies stand out that the whole would hide.
    """

    name = "nearest-neighbour ratio (NNDR), share of training"

    def share(self, around: Surroundings) -> Interval:
        count = max(1, round(_SHARPEST * len(around.ratios)))
        chosen = np.zeros(len(around.ratios), bool)
        chosen[np.argsort(around.ratios, kind="stable")[:count]] = True
        return around.share(chosen)


class IdenticalRecords(Attack):
    """The share of synthetic records that equal a training record, pixel by pixel.

    Guessing is what as many held-out records would give: their own share, scaled by the
    numbers. The control is the share of other held-out records that equal a training record:
    duplicates in the data. The interval (Clopper and Pearson) covers the draw of the synthetic
    records.
    """

    name = "identical records, share of synthetic"
    needs = frozenset({Need.TRAIN})

    @classmethod
    def instances(cls, protocol: Protocol) -> tuple[Metric, ...]:
        del protocol
        return (cls("pixels"),)

    def measure(self, case: Case) -> Measurement:
        training = case.part("train").features
        held_out, strangers = halves(case.drawn("test", len(case.test)).features)
        synthetic = case.synthetic.features
        same = repeated(synthetic, training)
        scale = len(training) / len(held_out)
        chance = min(1.0, scale * float(repeated(synthetic, held_out).mean()))
        return measured(
            clopper_pearson(int(same.sum()), len(same)),
            reference=float(repeated(strangers, training).mean()),
            chance=chance,
            seeds=(case.seed,),
        )


def repeated(records: Array, known: Array) -> Mask:
    """Which of these records equal one of the known ones, byte for byte."""
    if records.shape[1:] != known.shape[1:]:
        return np.zeros(len(records), bool)
    seen = {record.tobytes() for record in known}
    return np.array([record.tobytes() in seen for record in records], bool)
