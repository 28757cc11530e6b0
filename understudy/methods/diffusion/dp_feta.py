"""DP-FETA: a diffusion model that first learns noisy means of each class, then records by DP-SGD.

After Li, Wang and others (2025), with central images that carry the privacy they are
charged for, and, if asked for, axes along which images differ from them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from understudy.methods.contract import Context, Facts, Loop, PublicInputs
from understudy.methods.diffusion.central_warm_up import AXES, CENTRAL, learn_central_images
from understudy.methods.diffusion.feta_settings import FetaConfig
from understudy.methods.diffusion.planning import (
    check_facts,
    gigabytes_of,
    planned_steps,
    private_loops,
    public_loop,
)
from understudy.methods.diffusion.private_training import begin, finish, synthesizer_of
from understudy.methods.diffusion.synthesizer import DiffusionSynthesizer
from understudy.methods.info import MethodInfo
from understudy.nets.sizes import image_shape
from understudy.privacy.plan.mechanisms import Mechanism, NoisySum
from understudy.privacy.plan.plan import Plan, Spend

if TYPE_CHECKING:
    from understudy.privacy.door.private_records import PrivateRecords

NAME = "dp-feta"


class DPFeta:
    """Guarantee: (epsilon, delta) of one Gaussian release (two, with axes) and `steps`
    Poisson-sampled ones together, under add-or-remove one unit. `steps` may be 0.

    Central images come from one noisy sum: a record's vector (its small image and a constant
    that counts it, in the block of its class) has norm at most `central_clip`. Central axes,
    if asked for, come from a second one, around the means of the first: products of a
    record's coefficients and a constant, of norm at most `central_axes_clip` squared. A
    unit's vectors, summed over its records, are clipped to the same norms by the door.
    Training on what is released is post-processing. Then as `DPDM`.
    """

    info: ClassVar[MethodInfo] = MethodInfo(
        name=NAME,
        summary="a diffusion model that learns noisy class means first, then by DP-SGD",
        paper="Li and others: From easy to hard, DP-FETA (IEEE S&P 2025), arXiv:2504.01395",
        family="diffusion",
        mechanism="one or two Gaussian releases of class sums, then DP-SGD on the denoiser, "
        "if it has steps",
        changed_for_soundness=(
            "Central images are one noisy clipped sum over all units; published code takes means "
            "over the realised number of records of a class and adds noise for another number.",
            "A sum is divided by its own noised count and by the declared one, never by a "
            "private count.",
            "Central images, axes and DP-SGD, if any, stand in one plan and are calibrated "
            "together.",
            "Sums of DP-SGD are divided by the declared expected batch, and its sampling rate is "
            "the batch over the declared count.",
        ),
    )
    Config: ClassVar[type] = FetaConfig
    Output: ClassVar[type] = DiffusionSynthesizer

    def spend(self, config: FetaConfig, facts: Facts) -> Spend:
        """One noisy sum or two, and `steps` steps at rate batch / declared count.

        For many steps at a small rate q the noise of DP-SGD counts like one Gaussian of
        multiplier sigma / (q sqrt(steps)), and squares of inverse multipliers add up; a
        sum gets its share of DP-SGD's. How good this rule is changes no guarantee: the
        accountant composes all. Without steps the sums share the budget by the same shares.
        """
        check_facts(config, facts, NAME)
        if config.central_axes_share:
            config.axes(image_shape(facts.shape, NAME), facts.classes)
        whole = config.batch / facts.counts["train"] * math.sqrt(config.steps) or 1.0

        def summed(name: str, clip: float, share: float, sigma: float) -> NoisySum:
            return NoisySum(name, clip=clip, sigma=sigma / (whole * math.sqrt(share)))

        def planned(sigma: float) -> Sequence[Mechanism]:
            sums = [summed(CENTRAL, config.central_clip, config.central_share, sigma)]
            if config.central_axes_share:
                sums.append(summed(AXES, config.products_clip, config.central_axes_share, sigma))
            steps = [planned_steps(config, facts, sigma)] if config.steps else []
            return (*sums, *steps)

        return planned

    def loops(self, config: FetaConfig, facts: Facts, samples: int) -> Sequence[Loop]:
        first = public_loop(config, facts, config.course, "central_steps")
        return (first, *private_loops(config, facts, samples))

    def gigabytes(self, config: FetaConfig, facts: Facts) -> float:
        return gigabytes_of(config, facts)

    def fit(
        self,
        config: FetaConfig,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> DiffusionSynthesizer:
        """Release the central images and axes, learn them, then train step by step.

        After a restart what was released is given back as it was; training goes on from the last
        committed step, or begins again on the central images if there is none.
        """
        del public
        private = parts["train"]
        training, resumed = begin(config, private, context, NAME)
        if not resumed:
            learn_central_images(config, training, private, plan, context)
        if not config.steps:
            return synthesizer_of(training, private.schema)
        return finish(training, private, plan, context)
