"""Feature likelihood: how likely real images are under a density model of synthetic ones.

The Feature Likelihood Divergence (FLD; Jiralerspong et al. 2023) puts a normal law around the
features of each synthetic image, fits the widths to training images and asks how likely test
images are. Copies of training images make narrow laws, which leave the test images unlikely:
unlike the Fréchet distance, FLD grows when images are copied.

From its negative log-likelihood is taken that of real images: training images in the place of
the synthetic ones, as many, fitted to the same other training images. A sampler of the real law
so has FLD 0 in expectation. The published code compares with a fit to slightly fewer images.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch

from understudy.errors import UserError
from understudy.evaluation.case import Case
from understudy.evaluation.intervals import Interval, normal
from understudy.evaluation.metric import Bounds, Direction, Measurement, Metric, Need
from understudy.evaluation.mixtures import fit_mixture

Losses = npt.NDArray[np.float64]

MOST_CENTRES = 10_000
_SCALE = 100.0
_FEWEST = 2


@dataclass(frozen=True)
class Fitted:
    """Negative log-likelihoods of real images, in hundredths of a nat for each feature."""

    test: Losses
    train: Losses

    @property
    def gap(self) -> float:
        return float(self.train.mean() - self.test.mean())


@dataclass(frozen=True)
class Comparison:
    """The model of synthetic images beside the model of real ones in their place."""

    synthetic: Fitted
    real: Fitted


@dataclass(frozen=True)
class Split:
    """Features by what they do; rows of all are images, columns features.

    synthetic: centres of the model that is judged.
    stand_in: as many training images, centres of the model it is judged by.
    fit: other training images, to which the widths of both are fitted.
    test: images that neither has seen.
    """

    synthetic: npt.NDArray[np.float32]
    stand_in: npt.NDArray[np.float32]
    fit: npt.NDArray[np.float32]
    test: npt.NDArray[np.float32]


def compare_likelihoods(split: Split, device: torch.device) -> Comparison:
    """Fit both models and ask each how likely the test and the fitting images are.

    Features are scaled to mean 0 and variance 1 over the test images, as published; those
    that do not vary there have no scale and are left out.
    """
    test = torch.from_numpy(np.asarray(split.test)).to(device, torch.float64)
    mean, deviation = test.mean(dim=0), test.std(dim=0)
    varies = deviation > 0
    if not bool(varies.any()):
        raise UserError("no feature varies over the test images; choose another extractor.")

    def ready(features: npt.NDArray[np.float32]) -> torch.Tensor:
        moved = torch.from_numpy(np.asarray(features)).to(device, torch.float64)
        return ((moved - mean) / deviation)[:, varies]

    def fitted(centres: npt.NDArray[np.float32]) -> Fitted:
        model = fit_mixture(ready(centres), ready(split.fit))
        losses = [model.losses(ready(side)).cpu().numpy() for side in (split.test, split.fit)]
        return Fitted(test=_SCALE * losses[0], train=_SCALE * losses[1])

    return Comparison(synthetic=fitted(split.synthetic), real=fitted(split.stand_in))


class FeatureLikelihood(Metric):
    """What the metrics of this family share: the two models, fitted once for all of them."""

    needs = frozenset({Need.EXTRACTOR, Need.TRAIN})
    bounds: ClassVar[Bounds] = (None, None)
    unit = "hundredths of a nat per feature"

    @property
    def title(self) -> str:
        return f"{self.name}[{self.tool}]"

    def comparison(self, case: Case) -> Comparison:
        return case.once(
            (FeatureLikelihood, self.tool),
            lambda: compare_likelihoods(self._split(case), case.device),
        )

    def _split(self, case: Case) -> Split:
        """At most `fidelity_images` of each kind; two equal halves of a small training set."""
        available = len(case.part("train"))
        centres = min(case.fidelity_count, MOST_CENTRES, available // 2)
        if centres < _FEWEST:
            raise UserError(
                f"feature likelihood needs at least {_FEWEST} synthetic and test images and "
                f"{2 * _FEWEST} training images, not {case.fidelity_count} and {available}."
            )
        fit = min(case.protocol.fidelity_images, available - centres)
        train = case.features("train", self.tool, centres + fit)
        return Split(
            synthetic=case.features("synthetic", self.tool, centres),
            stand_in=train[:centres],
            fit=train[centres:],
            test=case.features("test", self.tool),
        )


class FeatureLikelihoodDivergence(FeatureLikelihood):
    """FLD: how much less likely test images are than under a model of real images.

    0 for a sampler of the real law; larger for images that are unlike the real ones, too alike
    among themselves, or copied from the training images (then without limit). The interval
    (normal) covers the draw of the test images, with both models as given.
    """

    name = "FLD"
    direction: ClassVar[Direction] = "lower"

    def measure(self, case: Case) -> Measurement:
        found = self.comparison(case)
        interval = _mean(found.synthetic.test - found.real.test)
        return _measurement(interval, case, reference=0.0)


class FeatureLikelihoodOnTrain(FeatureLikelihood):
    """FLD with the training images in the place of the test images: DPImageBench's form.

    The likelihood of the images that the widths were fitted to, less that of test images under
    the model of real images. It rewards copies instead of punishing them: beside published
    figures only. The interval (normal) covers the draw of the images asked about.
    """

    name = "FLD on train"
    direction: ClassVar[Direction] = "lower"

    def measure(self, case: Case) -> Measurement:
        found = self.comparison(case)
        interval = _difference(found.synthetic.train, found.real.test)
        return _measurement(interval, case, reference=found.real.gap)


class FeatureLikelihoodGap(FeatureLikelihood):
    """Generalisation gap: FLD on training images less FLD on test images.

    Somewhat below zero even for new images, because the widths were fitted to those training
    images; far below what real images have (the reference) when training images were copied.
    Neither end is good, so that it has no direction. The interval (normal) covers the draw of
    both sets of real images, with the model as given.
    """

    name = "FLD gap"
    direction: ClassVar[Direction] = "none"

    def measure(self, case: Case) -> Measurement:
        found = self.comparison(case)
        interval = _difference(found.synthetic.train, found.synthetic.test)
        return _measurement(interval, case, reference=found.real.gap)


def _measurement(interval: Interval, case: Case, reference: float) -> Measurement:
    return Measurement(
        value=interval.value,
        low=interval.low,
        high=interval.high,
        seeds=(case.seed,),
        reference=reference,
    )


def _mean(values: Losses) -> Interval:
    return normal(float(values.mean()), _error(values))


def _difference(first: Losses, second: Losses) -> Interval:
    gap = float(first.mean() - second.mean())
    return normal(gap, hypot(_error(first), _error(second)))


def _error(values: Losses) -> float:
    return float(values.std(ddof=1) / sqrt(len(values)))
