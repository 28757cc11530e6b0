"""The settings that every diffusion method here has."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.errors import UserError
from understudy.methods.config import setting
from understudy.methods.diffusion.denoising import EDM_DEVIATION, NoiseLevels, Preconditioning
from understudy.methods.diffusion.network import NetworkSpec
from understudy.methods.diffusion.samplers import SAMPLERS, SamplerSettings
from understudy.nets.sizes import Shape


@dataclass(frozen=True)
class DiffusionConfig:
    """Settings of a diffusion model under DP-SGD. None is measured on private records."""

    steps: int = setting(1000, "DP-SGD steps", low=1)
    batch: int = setting(4096, "records a step draws on average", low=1)
    multiplicity: int = setting(
        8,
        "noise levels and noises an image is seen with in a step, averaged inside its clip",
        low=1,
    )
    noise_pairs: bool = setting(
        False,
        "noises of an image in pairs at one noise level, each with its negative, so that what "
        "is the noise's own cancels inside the clip (needs an even `multiplicity`)",
    )
    clip: float = setting(0.5, "longest gradient of one record", low=1e-9)
    learning_rate: float = setting(1e-3, "Adam's highest rate", low=1e-7, high=1.0)
    warm_up: int = setting(50, "steps over which the rate rises", low=0)
    decay: str = setting(
        "constant", "what the rate does after the rise", choices=("constant", "cosine")
    )
    momentum: float = setting(0.9, "Adam's beta1", low=0.0, high=0.999)
    average: float = setting(
        0.999, "decay of the weights' running average, which is released", low=0.0, high=0.99999
    )
    levels: str = setting(
        "log-normal",
        "noise levels in training: log-normal (mean and deviation of the logarithm) or "
        "log-uniform (its two ends)",
        choices=("log-normal", "log-uniform"),
    )
    level_values: tuple[float, ...] = setting(
        (-1.2, 1.2), "the two numbers of `levels`", low=-20.0, high=20.0
    )
    level_balance: float = setting(
        0.0,
        "losses at noise levels above 1 are divided by the level to this power: else a few high "
        "levels, with the longest gradients, take most of an image's clip",
        low=0.0,
        high=2.0,
    )
    deviation: float = setting(
        EDM_DEVIATION, "standard deviation that pixels in [-1, 1] are assumed to have", low=1e-3
    )
    label_drop: float = setting(
        0.1, "how often a label is left out in training (guidance needs it)", low=0.0, high=0.9
    )
    flip: bool = setting(False, "mirror half of the images, inside their clip")
    width: int = setting(128, "channels that the levels of the network multiply", low=4)
    multipliers: tuple[int, ...] = setting(
        (1, 1), "channels of each level of the network, as multiples of `width`", low=1
    )
    blocks: tuple[int, ...] = setting((3, 1), "residual blocks of each level", low=1)
    attention: tuple[int, ...] = setting(
        (7,),
        "positions a side of the level at which the network attends, or the nearest (0: nowhere)",
        low=0,
    )
    patch: int = setting(2, "pixels a side that the network takes together", low=1)
    output_gain: float = setting(
        1.0,
        "what the network's output is multiplied by: below 1, the gradients of its last layer "
        "take less of the clip",
        low=1e-3,
        high=1e3,
    )
    sampler: str = setting("edm", "how images are drawn", choices=SAMPLERS)
    sampling_steps: int = setting(40, "noise levels visited when an image is drawn", low=1)
    highest_level: float = setting(80.0, "noise level that drawing starts from", low=0.1)
    guidance: float = setting(0.0, "classifier-free guidance when drawing (0: none)", low=0.0)
    churn: float = setting(10.0, "noise put back while drawing, for sampler edm", low=0.0)
    churn_low: float = setting(0.025, "lowest noise level with churn", low=0.0)
    micro_batch: int = setting(
        0, "network passes computed at once (0: as memory allows); speed only", low=0
    )
    precision: str = setting(
        "float32", "of the network's passes; speed only", choices=("float32", "bfloat16")
    )

    def __post_init__(self) -> None:
        if self.noise_pairs and self.multiplicity % 2:
            raise UserError(
                f"setting 'noise_pairs' needs an even multiplicity, not {self.multiplicity}."
            )
        if self.guidance and not self.label_drop:
            raise UserError(
                "setting 'guidance' needs a label_drop above 0, as 0.1: it draws away from images "
                "without a label, which are else never learned."
            )
        if len(self.level_values) != 2:
            raise UserError("setting 'level_values' takes two numbers, as -1.2,1.2.")
        if self.levels == "log-normal" and self.level_values[1] <= 0:
            raise UserError("setting 'level_values': the second number, a deviation, must be > 0.")
        if self.levels == "log-uniform" and self.level_values[0] >= self.level_values[1]:
            raise UserError("setting 'level_values': the first number must be below the second.")

    @property
    def noise_levels(self) -> NoiseLevels:
        return NoiseLevels(self.levels, *self.level_values)

    @property
    def preconditioning(self) -> Preconditioning:
        return Preconditioning(self.deviation)

    @property
    def drawing(self) -> SamplerSettings:
        return SamplerSettings(
            name=self.sampler,
            steps=self.sampling_steps,
            highest=self.highest_level,
            guidance=self.guidance,
            churn=self.churn,
            churn_low=self.churn_low,
        )

    def network(self, shape: Shape, classes: int) -> NetworkSpec:
        return NetworkSpec.of(
            shape,
            classes,
            self.width,
            self.multipliers,
            self.blocks,
            self.attention,
            self.patch,
            self.output_gain,
        )
