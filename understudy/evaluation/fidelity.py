"""Fidelity: how near synthetic images lie to real ones in the features of a named extractor.

A figure means something only together with its extractor, so the name of the row carries
it: `FD[random-conv]`, `precision[squeezenet]`. The names FID and KID are kept for
Inception-v3. Synthetic images are compared with real test images (unless the protocol says
train); the reference compares as many real training images with the same test images.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.evaluation.case import Case
from understudy.evaluation.distances import frechet_distance, kernel_distances
from understudy.evaluation.intervals import Interval, normal, student_half_width, wilson
from understudy.evaluation.metric import Bounds, Direction, Measurement, Metric, Need
from understudy.evaluation.neighbours import coverage, covered_share, densities
from understudy.evaluation.protocol import Protocol

Features = npt.NDArray[np.float32]


class Fidelity(Metric):
    """A comparison of two sets of features, and the same for real images in both places."""

    needs = frozenset({Need.EXTRACTOR})
    inception_name: ClassVar[str | None] = None

    @property
    def title(self) -> str:
        if self.inception_name is not None and self.tool == "inception-v3":
            return self.inception_name
        return f"{self.name}[{self.tool}]"

    @abstractmethod
    def compare(self, synthetic: Features, real: Features, protocol: Protocol) -> Interval:
        """The quantity with its interval."""

    def measure(self, case: Case) -> Measurement:
        real = case.features(case.real, self.tool)
        interval = self.compare(case.features("synthetic", self.tool), real, case.protocol)
        reference = None
        if case.stand_in is not None:
            stand_in = case.features(case.stand_in, self.tool)
            reference = self.compare(stand_in, real, case.protocol).value
        return Measurement(
            value=interval.value,
            low=interval.low,
            high=interval.high,
            seeds=(case.seed,),
            reference=reference,
        )


class FrechetDistance(Fidelity):
    """Fréchet distance between normal laws fitted to the features.

    The interval (normal, from the influence function) covers the draw of both sets of
    images. It does not correct the upward bias of small sets, which the reference shares.
    """

    name = "FD"
    inception_name = "FID"
    direction: ClassVar[Direction] = "lower"
    bounds: ClassVar[Bounds] = (0.0, None)
    unit = "squared feature distance"

    def compare(self, synthetic: Features, real: Features, protocol: Protocol) -> Interval:
        del protocol
        estimate = frechet_distance(synthetic, real)
        return normal(estimate.value, estimate.standard_error).within(0.0)


class KernelDistance(Fidelity):
    """Unbiased squared maximum mean discrepancy with a cubic kernel.

    The interval (Student's t over disjoint blocks) covers the draw of both sets. Being
    unbiased, the value may fall below zero where the two sets have the same law.
    """

    name = "KD"
    inception_name = "KID"
    direction: ClassVar[Direction] = "lower"
    bounds: ClassVar[Bounds] = (None, None)
    unit = "squared discrepancy"

    def compare(self, synthetic: Features, real: Features, protocol: Protocol) -> Interval:
        blocks = kernel_distances(synthetic, real, protocol.kernel_block)
        value, half = float(blocks.mean()), student_half_width(blocks.tolist())
        return Interval(value, value - half, value + half)


class Precision(Fidelity):
    """The share of synthetic images inside the manifold of the real ones.

    The interval (Wilson) covers the draw of the images counted, with the manifold as given.
    """

    name = "precision"
    direction: ClassVar[Direction] = "higher"
    bounds: ClassVar[Bounds] = (0.0, 1.0)
    unit = "fraction"

    def compare(self, synthetic: Features, real: Features, protocol: Protocol) -> Interval:
        return wilson(covered_share(synthetic, real, protocol.neighbours), len(synthetic))


class Recall(Fidelity):
    """The share of real images inside the manifold of the synthetic ones.

    The interval (Wilson) covers the draw of the images counted, with the manifold as given.
    """

    name = "recall"
    direction: ClassVar[Direction] = "higher"
    bounds: ClassVar[Bounds] = (0.0, 1.0)
    unit = "fraction"

    def compare(self, synthetic: Features, real: Features, protocol: Protocol) -> Interval:
        return wilson(covered_share(real, synthetic, protocol.neighbours), len(real))


class Density(Fidelity):
    """How many real neighbourhoods a synthetic image lies in, in units of k.

    About 1 for images of the same law, and without upper bound: a set drawn to the densest
    part of the real law goes far above 1. Read it together with coverage. The interval
    (normal) covers the draw of the synthetic images, with the neighbourhoods as given.
    """

    name = "density"
    direction: ClassVar[Direction] = "higher"
    bounds: ClassVar[Bounds] = (0.0, None)
    unit = "ratio"
    neighbours: ClassVar[int] = 5

    def compare(self, synthetic: Features, real: Features, protocol: Protocol) -> Interval:
        del protocol
        found = densities(synthetic, real, self.neighbours)
        error = float(found.std(ddof=1)) / len(found) ** 0.5
        return normal(float(found.mean()), error).within(0.0)


class Coverage(Fidelity):
    """The share of real neighbourhoods that hold a synthetic image.

    About 1 - 2^-k, not 1, for as many images of the same law: see the reference. The interval
    (Wilson) covers the draw of the real images, with the synthetic ones as given.
    """

    name = "coverage"
    direction: ClassVar[Direction] = "higher"
    bounds: ClassVar[Bounds] = (0.0, 1.0)
    unit = "fraction"
    neighbours: ClassVar[int] = 5

    def compare(self, synthetic: Features, real: Features, protocol: Protocol) -> Interval:
        del protocol
        return wilson(coverage(synthetic, real, self.neighbours), len(real))
