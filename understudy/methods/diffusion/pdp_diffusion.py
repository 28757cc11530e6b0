"""PDP-Diffusion: a diffusion model that learns public images first, then records by DP-SGD.

After Ghalebikesabi and others (2023).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from understudy.errors import UserError
from understudy.methods.config import setting
from understudy.methods.contract import Context, Facts, Loop, PublicInputs
from understudy.methods.diffusion.network import take_over
from understudy.methods.diffusion.planning import (
    check_facts,
    gigabytes_of,
    planned_steps,
    private_loops,
    public_loop,
)
from understudy.methods.diffusion.pretraining import pretrained_weights
from understudy.methods.diffusion.private_training import begin, finish
from understudy.methods.diffusion.public_records import check_images, fitted_to
from understudy.methods.diffusion.public_training import PublicCourse
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.methods.diffusion.synthesizer import DiffusionSynthesizer
from understudy.methods.info import MethodInfo, PublicRecords
from understudy.privacy.plan.mechanisms import Mechanism
from understudy.privacy.plan.plan import Plan, Spend

if TYPE_CHECKING:
    from understudy.privacy.door.private_records import PrivateRecords

NAME, RECORDS = "pdp-diffusion", "records"


@dataclass(frozen=True)
class PdpConfig(DiffusionConfig):
    """Settings of PDP-Diffusion. None is measured on private records."""

    public_steps: int = setting(10000, "training steps on public images", low=1)
    public_batch: int = setting(1024, "images in such a step", low=1, high=16_384)
    public_rate: float = setting(1e-3, "Adam's rate in such a step", low=1e-7, high=1.0)
    conditional: bool = setting(True, "learn public images with their own labels")

    @property
    def course(self) -> PublicCourse:
        return PublicCourse(
            "learning public images", self.public_steps, self.public_batch, self.public_rate
        )


class PDPDiffusion:
    """Guarantee: (epsilon, delta) of `steps` Poisson-sampled Gaussians, add-or-remove one unit.

    Public images are the owner's declaration: what is learnt from them costs nothing, and
    the claim names them. Private records enter as in `DPDM`. Public classes are forgotten
    before private records are met: every private class begins with a random code of its own.
    """

    info: ClassVar[MethodInfo] = MethodInfo(
        name=NAME,
        summary="a diffusion model that learns public images first, then by DP-SGD",
        paper="Ghalebikesabi and others: Differentially private diffusion models generate "
        "useful synthetic images (2023), arXiv:2302.13861",
        family="diffusion",
        public=(PublicRecords(RECORDS, "labelled images to pre-train on"),),
        mechanism="DP-SGD on a denoiser that was trained on public records",
        changed_for_soundness=(
            "Sums are divided by the declared expected batch, and the sampling rate is the "
            "batch over the declared count; published code uses the realised number of records.",
            "Public data are named in the claim; which ones to use is the owner's declared "
            "choice, never a measurement on private records.",
        ),
    )
    Config: ClassVar[type] = PdpConfig
    Output: ClassVar[type] = DiffusionSynthesizer

    def spend(self, config: PdpConfig, facts: Facts) -> Spend:
        """`steps` steps at rate batch / declared count; public records cost nothing."""
        check_facts(config, facts, NAME)

        def planned(sigma: float) -> Sequence[Mechanism]:
            return (planned_steps(config, facts, sigma),)

        return planned

    def check_public(self, public: PublicInputs) -> None:
        check_images(public.records[RECORDS], NAME)

    def loops(self, config: PdpConfig, facts: Facts, samples: int) -> Sequence[Loop]:
        first = public_loop(config, facts, config.course, "public_steps")
        return (first, *private_loops(config, facts, samples))

    def gigabytes(self, config: PdpConfig, facts: Facts) -> float:
        return gigabytes_of(config, facts)

    def fit(
        self,
        config: PdpConfig,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> DiffusionSynthesizer:
        """Learn public images, or find them learnt already; then train step by step."""
        private = parts["train"]
        training, resumed = begin(config, private, context, NAME)
        if not resumed:
            if RECORDS not in public.records:
                raise UserError(f"{NAME} needs public images; name them with --public.")
            images = fitted_to(
                public.records[RECORDS],
                training.spec.shape,
                config.conditional,
                context.progress,
                NAME,
            )
            weights = pretrained_weights(config, config.course, images, public.cache, context)
            take_over(training.average, weights)
            training.begin_again()
        return finish(training, private, plan, context)
