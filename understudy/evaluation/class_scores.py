"""Inception Scores: are images clearly of one class each, and of all classes together?

The score is `exp(mean KL(p(y|x) || p(y)))`, from 1 (every image looks the same to the
classifier) to its number of classes. Two published kinds go by one name and share nothing but
the formula, so they have two names here:

- "Inception Score" asks Inception-v3 for its 1008 ImageNet classes (Salimans et al. 2016;
  DPImageBench). Another pretrained network makes a "class score[network]".
- "dataset-classifier score" asks a classifier trained on the real training images for the
  classes of the dataset (GS-WGAN, DP-GAN-DPAC: about 9 of 10 on MNIST where the Inception
  Score is about 2).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import hypot
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.errors import UserError
from understudy.evaluation.case import Case, Part
from understudy.evaluation.intervals import Interval, student_half_width
from understudy.evaluation.metric import Bounds, Direction, Measurement, Metric, Need
from understudy.evaluation.metric_registry import CLASSIFYING_EXTRACTORS
from understudy.evaluation.protocol import Protocol

Probabilities = npt.NDArray[np.float64]

SPLITS = 10
_TOLERANCE = 1e-6


def split_scores(probabilities: npt.ArrayLike, splits: int = SPLITS) -> Probabilities:
    """The score of each of `splits` equal parts, in the order given.

    >>> split_scores([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], splits=2).round(9).tolist()
    [2.0, 2.0]
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or p.min(initial=0) < 0 or not np.allclose(p.sum(axis=1), 1, atol=_TOLERANCE):
        raise UserError("class probabilities must be a matrix whose rows are shares that add to 1.")
    if len(p) < 2 * splits:
        raise UserError(f"a score over {splits} parts needs {2 * splits} images, not {len(p)}.")
    return np.array([_score(part) for part in np.array_split(p, splits)])


def _score(p: Probabilities) -> float:
    marginal = np.broadcast_to(p.mean(axis=0), p.shape)
    held = p > 0  # 0 log 0 is 0
    information = (p[held] * np.log(p[held] / marginal[held])).sum() / len(p)
    return max(float(np.exp(information)), 1.0)  # rounding may leave a little less


def score_interval(scores: Sequence[Probabilities], classes: int) -> Interval:
    """The mean score, of one or more classifiers (rows) on the same parts (columns).

    Covers the draw of the images (Student's t over the parts, which are disjoint) and, with
    several classifiers, their training (Student's t over them), as independent errors. A small
    part has too low a score, which the reference at the same count shares.
    """
    table = np.stack(scores)
    half = student_half_width(table.mean(axis=0).tolist())
    if len(table) > 1:
        half = hypot(half, student_half_width(table.mean(axis=1).tolist()))
    value = float(table.mean())
    return Interval(value, value - half, value + half).within(1.0, float(classes))


class ClassScore(Metric):
    """A score of synthetic images, with that of as many real test images as its reference."""

    direction: ClassVar[Direction] = "higher"
    bounds: ClassVar[Bounds] = (1.0, None)
    unit = "effective classes"

    @abstractmethod
    def probabilities(self, case: Case, part: Part) -> list[Probabilities]:
        """Class probabilities of `fidelity_count` images, by each classifier there is."""

    @abstractmethod
    def seeds(self, case: Case) -> tuple[int, ...]:
        """The seeds that the score depends on."""

    def measure(self, case: Case) -> Measurement:
        interval = self._interval(case, "synthetic")
        reference = self._interval(case, "test")
        return Measurement(
            value=interval.value,
            low=interval.low,
            high=interval.high,
            seeds=self.seeds(case),
            reference=reference.value,
        )

    def _interval(self, case: Case, part: Part) -> Interval:
        found = self.probabilities(case, part)
        return score_interval([split_scores(p) for p in found], found[0].shape[1])


class InceptionScore(ClassScore):
    """The score under a pretrained network; "Inception Score" with Inception-v3 only.

    Mean over ten parts, as in its authors' code. The probabilities are the network's own, its
    last layer's bias included; the first TensorFlow code left the bias out.
    """

    name = "class score"
    needs = frozenset({Need.EXTRACTOR})

    @classmethod
    def instances(cls, protocol: Protocol) -> tuple[Metric, ...]:
        """One for each extractor of the protocol that has classes."""
        return tuple(cls(name) for name in protocol.extractors if name in CLASSIFYING_EXTRACTORS)

    @property
    def title(self) -> str:
        return "Inception Score" if self.tool == "inception-v3" else f"{self.name}[{self.tool}]"

    def probabilities(self, case: Case, part: Part) -> list[Probabilities]:
        features = case.features(part, self.tool)
        return [case.extractor(self.tool).class_probabilities(features, case.device)]

    def seeds(self, case: Case) -> tuple[int, ...]:
        return (case.seed,)


class DatasetClassifierScore(ClassScore):
    """The score under classifiers trained on the real training images, as the protocol trains.

    At most the number of classes of the label. Published figures used other networks (a VGG11
    with cropping and flipping), so that only the scale is theirs.
    """

    name = "dataset-classifier score"
    needs = frozenset({Need.CLASSIFIER, Need.LABEL, Need.TRAIN})

    def probabilities(self, case: Case, part: Part) -> list[Probabilities]:
        features = case.drawn(part).features
        networks = [case.classifier("train", self.tool, seed) for seed in case.seeds]
        return [network.probabilities(features) for network in networks]

    def seeds(self, case: Case) -> tuple[int, ...]:
        return case.seeds
