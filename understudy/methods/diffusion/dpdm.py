"""DPDM: a diffusion model trained by DP-SGD, each image seen with many noises in one clip.

After Dockhorn, Cao, Vahdat and Kreis (2023).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from understudy.methods.contract import Context, Facts, Loop, PublicInputs
from understudy.methods.diffusion.planning import (
    check_facts,
    gigabytes_of,
    planned_steps,
    private_loops,
)
from understudy.methods.diffusion.private_training import begin, finish
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.methods.diffusion.synthesizer import DiffusionSynthesizer
from understudy.methods.info import MethodInfo
from understudy.privacy.plan.mechanisms import Mechanism
from understudy.privacy.plan.plan import Plan, Spend

if TYPE_CHECKING:
    from understudy.privacy.door.private_records import PrivateRecords

NAME = "dpdm"


class DPDM:
    """Guarantee: (epsilon, delta) of `steps` Poisson-sampled Gaussians, add-or-remove one unit.

    A record enters only through the gradient of its own denoising losses, averaged over
    `multiplicity` noise levels and noises, then clipped once to `clip` (a unit's records
    together). Noises, levels, label drop and flips come from the door, per record; the
    label is used inside the clip only. Sampling reads the averaged weights and the seed.
    """

    info: ClassVar[MethodInfo] = MethodInfo(
        name=NAME,
        summary="a diffusion model trained by DP-SGD, many noises of an image in one clip",
        paper="Dockhorn, Cao, Vahdat, Kreis: Differentially private diffusion models "
        "(TMLR 2023), arXiv:2210.09929",
        family="diffusion",
        mechanism="DP-SGD on the denoiser",
        changed_for_soundness=(
            "Sums are divided by the declared expected batch, and the sampling rate is the "
            "batch over the declared count; published code uses the realised number of records.",
            "Sampler, guidance and number of steps are fixed in the preset; the paper chose "
            "them per dataset and budget by measuring on real data.",
        ),
    )
    Config: ClassVar[type] = DiffusionConfig
    Output: ClassVar[type] = DiffusionSynthesizer

    def spend(self, config: DiffusionConfig, facts: Facts) -> Spend:
        """`steps` steps at rate batch / declared count."""
        check_facts(config, facts, NAME)

        def planned(sigma: float) -> Sequence[Mechanism]:
            return (planned_steps(config, facts, sigma),)

        return planned

    def loops(self, config: DiffusionConfig, facts: Facts, samples: int) -> Sequence[Loop]:
        return private_loops(config, facts, samples)

    def gigabytes(self, config: DiffusionConfig, facts: Facts) -> float:
        return gigabytes_of(config, facts)

    def fit(
        self,
        config: DiffusionConfig,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> DiffusionSynthesizer:
        """Train step by step; every step can be gone on from after a restart."""
        del public
        training, _ = begin(config, parts["train"], context, NAME)
        return finish(training, parts["train"], plan, context)
