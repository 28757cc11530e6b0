"""DP-FETA: a diffusion model that first learns noisy means of each class, then records by DP-SGD.

After Li, Wang and others (2025), with central images that carry the privacy they are
charged for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from understudy.errors import UserError
from understudy.methods.config import setting
from understudy.methods.contract import Context, Facts, Forecast, MethodInfo, PublicInputs
from understudy.methods.diffusion.central_images import (
    CentralImages,
    CentralSettings,
    vectors_of,
)
from understudy.methods.diffusion.central_views import as_shapes, moved
from understudy.methods.diffusion.planning import check_facts, forecast_steps, planned_steps
from understudy.methods.diffusion.private_training import begin, finish
from understudy.methods.diffusion.public_training import Pick, PublicCourse, train_on_public
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.methods.diffusion.synthesizer import DiffusionSynthesizer
from understudy.methods.diffusion.training import DenoiserTraining, chosen_codes
from understudy.nets.sizes import Shape
from understudy.privacy.mechanisms import Mechanism, NoisySum
from understudy.privacy.plan import Plan, Spend

if TYPE_CHECKING:
    from understudy.privacy.private_records import PrivateRecords

NAME, CENTRAL = "dp-feta", "central images"


@dataclass(frozen=True)
class FetaConfig(DiffusionConfig):
    """Settings of DP-FETA. None is measured on private records."""

    central_share: float = setting(
        0.03,
        "about which part of the budget the central images take (of its square, roughly)",
        low=1e-6,
        high=0.99,
    )
    central_side: int = setting(14, "pixels a side of the central images, at most", low=1)
    central_clip: float = setting(5.0, "longest vector of one record (image and count)", low=1e-9)
    central_mass: float = setting(
        0.1, "part of that vector's square that counts records", low=1e-4, high=0.9
    )
    central_ground: float = setting(
        0.0, "pixel value in [0, 1] that central images count from", low=0.0, high=1.0
    )
    central_cells: int = setting(
        1, "central images of each class, by public random patterns (a power of two)", low=1
    )
    central_shapes: float = setting(
        0.0,
        "part of the central images that are learned as shapes: bent, cut out at a random "
        "brightness and shaded",
        low=0.0,
        high=1.0,
    )
    central_steps: int = setting(1000, "training steps on the central images", low=1)
    central_batch: int = setting(256, "images in such a step", low=1)
    central_rate: float = setting(1e-3, "Adam's rate in such a step", low=1e-7, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.central_cells & (self.central_cells - 1):
            raise UserError("setting 'central_cells' must be a power of two, as 1, 2, 4 or 8.")

    def central(self, shape: Shape, classes: int, seed: int) -> CentralSettings:
        return CentralSettings(
            shape,
            classes,
            self.central_side,
            self.central_clip,
            self.central_mass,
            self.central_ground,
            self.central_cells,
            seed,
        )


class DPFeta:
    """Guarantee: (epsilon, delta) of one Gaussian release and `steps` Poisson-sampled ones
    together, under add-or-remove one unit.

    Central images come from one noisy sum: a record's vector (its small image and a constant
    that counts it, in the block of its class) has norm at most `central_clip`, and so has a
    unit's, clipped by the door. Training on them is post-processing. Then as `DPDM`.
    """

    info: ClassVar[MethodInfo] = MethodInfo(
        name=NAME,
        summary="a diffusion model that learns noisy class means first, then by DP-SGD",
        paper="Li and others: From easy to hard, DP-FETA (IEEE S&P 2025), arXiv:2504.01395",
        family="diffusion",
        mechanism="one Gaussian release of class sums, then DP-SGD on the denoiser",
        changed_for_soundness=(
            "Central images are one noisy clipped sum over all units; published code takes means "
            "over the realised number of records of a class and adds noise for another number.",
            "A sum is divided by its own noised count and by the declared one, never by a "
            "private count.",
            "Central images and DP-SGD stand in one plan and are calibrated together.",
            "Sums are divided by the declared expected batch, and the sampling rate is the "
            "batch over the declared count.",
        ),
    )
    Config: ClassVar[type] = FetaConfig

    def spend(self, config: FetaConfig, facts: Facts) -> Spend:
        """One noisy sum, and `steps` steps at rate batch / declared count.

        For many steps at a small rate q the noise of DP-SGD counts like one Gaussian of
        multiplier sigma / (q sqrt(steps)), and squares of inverse multipliers add up; the
        sum gets `central_share` of DP-SGD's. How good this rule is changes no guarantee:
        the accountant composes both.
        """
        check_facts(config, facts, NAME)
        rate = config.batch / facts.counts["train"]
        ratio = 1 / (rate * math.sqrt(config.central_share * config.steps))

        def planned(sigma: float) -> Sequence[Mechanism]:
            return (
                NoisySum(CENTRAL, clip=config.central_clip, sigma=ratio * sigma),
                planned_steps(config, facts, sigma),
            )

        return planned

    def forecast(self, config: FetaConfig, facts: Facts) -> Forecast:
        return forecast_steps(config, facts, config.central_steps * config.central_batch)

    def fit(
        self,
        config: FetaConfig,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> DiffusionSynthesizer:
        """Release the central images, learn them, then train step by step.

        After a restart the release is given back as it was; training goes on from the last
        committed step, or begins again on the central images if there is none.
        """
        del public
        private = parts["train"]
        training, resumed = begin(config, private, context, NAME)
        if not resumed:
            _learn_central_images(config, training, private, plan, context)
        return finish(training, private, plan, context)


def _learn_central_images(
    config: FetaConfig,
    training: DenoiserTraining,
    private: PrivateRecords,
    plan: Plan,
    context: Context,
) -> None:
    settings = config.central(training.spec.shape, training.spec.classes, context.seed)
    planned = plan.mechanism(CENTRAL)
    assert isinstance(planned, NoisySum)
    noisy = private.noisy_sum(vectors_of(settings), clip=planned.clip, sigma=planned.sigma)
    noise = planned.clip * planned.sigma
    central = CentralImages.read(noisy, settings, private.count, noise)
    course = PublicCourse(
        "learning the central images",
        config.central_steps,
        config.central_batch,
        config.central_rate,
    )
    pick = _picked(central.to(training.device), config)
    train_on_public(training, pick, course, context.seed, context.progress)


def _picked(central: CentralImages, config: FetaConfig) -> Pick:
    """Classes evenly, central images of a class by their noisy counts, each seen anew."""
    classes = int(central.labels.max()) + 1
    weights = central.weights.reshape(classes, -1)
    shares, each = weights / weights.sum(dim=1, keepdim=True), weights.shape[1]

    def pick(rows: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(classes, (rows,), generator=random, device=random.device)
        # Not by torch.multinomial, for whose checks the host waits until the GPU is through.
        uniform = torch.rand(rows, generator=random, device=random.device)
        cells = chosen_codes(shares[labels], uniform)
        images = moved(central.images[labels * each + cells], random)
        return as_shapes(images, config.central_shapes, config.central_ground, random), labels

    return pick
