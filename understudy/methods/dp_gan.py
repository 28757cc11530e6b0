"""DP-GAN: a discriminator that learns from private records by DP-SGD teaches a generator.

The modern sound form of Xie et al. (2018), after Bie, Kamath and Zhang (2023): many
discriminator steps for each generator step. The discriminator alone meets private
records; the generator learns from the discriminator and from random labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from understudy.methods.config import setting
from understudy.methods.contract import Context, Facts, Loop, LoopKind, PublicInputs
from understudy.methods.gan_training import AdversarialPair
from understudy.methods.info import MethodInfo
from understudy.methods.synthesizer import GeneratorSynthesizer
from understudy.nets.counting import count_multiplications
from understudy.nets.discriminator import Discriminator
from understudy.nets.generators import GeneratorSpec
from understudy.nets.sizes import Shape, image_shape
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.plan.mechanisms import DPSGD, Mechanism
from understudy.privacy.plan.plan import Plan, Spend

if TYPE_CHECKING:
    from understudy.privacy.door.private_records import PrivateRecords
    from understudy.privacy.dpsgd.session import DPSGDSession

TRAINING = "discriminator"
BAR = "training the discriminator"
_GRADIENT_BYTES = {"cpu": 2**28, "cuda": 2**30}


@dataclass(frozen=True)
class GanConfig:
    """Settings of DP-GAN. None is measured on private records."""

    steps: int = setting(2000, "discriminator steps", low=1)
    batch: int = setting(256, "records a step draws on average", low=1)
    clip: float = setting(0.1, "longest gradient of one record", low=1e-9)
    fake: str = setting(
        "inside",
        "generated images: inside each record's own clip (one for each record), or outside "
        "it (a batch of their own, without noise)",
        choices=("inside", "outside"),
    )
    fake_batch: int = setting(128, "generated images a step when they are outside", low=1)
    steps_per_generator: int = setting(2, "discriminator steps for each generator step", low=1)
    generator_batch: int = setting(256, "generated images in a generator step", low=2)
    loss: str = setting("logistic", "adversarial loss", choices=("logistic", "hinge"))
    latent: int = setting(32, "random values per image", low=1)
    width: int = setting(32, "channels of the generator's last stage", low=4)
    discriminator_width: int = setting(16, "channels of the discriminator's first stage", low=4)
    discriminator_features: int = setting(64, "size of the discriminator's dense layer", low=4)
    learning_rate: float = setting(1e-3, "Adam's rate for the generator", low=1e-7, high=1.0)
    discriminator_rate: float = setting(
        1e-3, "Adam's rate for the discriminator", low=1e-7, high=1.0
    )
    momentum: float = setting(0.0, "Adam's beta1 for both", low=0.0, high=0.999)
    average: float = setting(
        0.99, "decay of the generator's running average, which is released", low=0.0, high=0.99999
    )
    micro_batch: int = setting(
        0, "records whose gradients are computed at once (0: as memory allows); speed only", low=0
    )
    precision: str = setting(
        "float32", "of the discriminator's passes; speed only", choices=("float32", "bfloat16")
    )


class DPGan:
    """Guarantee: (epsilon, delta) of `steps` Poisson-sampled Gaussians, add-or-remove one unit.

    A record enters only through the gradient of its own loss, clipped to `clip` (a unit's
    records together). With `fake="inside"` that loss also holds one generated image, made
    for this record from the door's randomness, so it is inside the same clip; with
    "outside" generated images come at a constant batch size and never meet a record.
    Real labels are used inside the clip only. The generator sees the discriminator, whose
    weights are already private, and labels drawn uniformly from the public seed.
    """

    info: ClassVar[MethodInfo] = MethodInfo(
        name="dp-gan",
        summary="a conditional GAN whose discriminator is trained by DP-SGD",
        paper="Xie et al.: Differentially private GAN (2018), arXiv:1802.06739; in the form of "
        "Bie, Kamath, Zhang: Private GANs, revisited (TMLR 2023), arXiv:2302.02936",
        family="adversarial",
        mechanism="DP-SGD on the discriminator",
        changed_for_soundness=(
            "Every record's gradient is clipped; the 2018 paper argues its sensitivity from "
            "weight clipping, which its code does not enforce per record.",
            "Batches are true Poisson samples and are divided by the declared expected size; "
            "published code shuffles fixed batches and accounts for Poisson ones.",
            "The discriminator has no layer that mixes records (no batch normalisation).",
            "Generator steps draw labels uniformly and never see real ones.",
            "One conditional model for all classes; the 2018 code trains one model per class "
            "on records chosen by their private label.",
        ),
    )
    Config: ClassVar[type] = GanConfig
    Output: ClassVar[type] = GeneratorSynthesizer

    def spend(self, config: GanConfig, facts: Facts) -> Spend:
        """`steps` steps at rate batch / declared count."""
        image_shape(facts.shape, "dp-gan")
        rate = facts.rate(config.batch)

        def planned(sigma: float) -> Sequence[Mechanism]:
            return (DPSGD(TRAINING, config.steps, rate, config.clip, sigma),)

        return planned

    def loops(self, config: GanConfig, facts: Facts, samples: int) -> Sequence[Loop]:
        """The generator's steps count as work of the discriminator's, and drawing takes no
        time."""
        del samples
        shape, classes = image_shape(facts.shape, "dp-gan"), facts.classes
        critic, generator = _multiplications(config, shape, classes)
        passes = config.batch * (2 if config.fake == "inside" else 1)
        made = config.generator_batch / config.steps_per_generator
        work = critic + (critic + generator) * made / passes
        return (Loop(BAR, "steps", config.steps, LoopKind.ADVERSARIAL, passes, work),)

    def gigabytes(self, config: GanConfig, facts: Facts) -> float:
        del config, facts
        return 1.2

    def fit(
        self,
        config: GanConfig,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> GeneratorSynthesizer:
        """Train step by step; every step can be gone on from after a restart."""
        del public
        private = parts["train"]
        shape, classes = image_shape(private.shape, "dp-gan"), len(private.schema.classes)
        pair = AdversarialPair(config, shape, classes, context.seed, context.device)
        state = context.restore()
        if state is not None:
            pair.load(state)
        speed = _speed(config, pair, context.device)
        sgd = private.dp_sgd(plan, pair.models, pair.record_loss, pair.draws, speed, TRAINING)
        for step in sgd.steps(BAR):
            _discriminator_step(config, pair, sgd, step)
            if (step + 1) % config.steps_per_generator == 0:
                pair.generator_step((step + 1) // config.steps_per_generator)
            context.checkpoint(pair.snapshot)
        return GeneratorSynthesizer(pair.spec, pair.finished(), private.schema)


def _multiplications(config: GanConfig, shape: Shape, classes: int) -> tuple[float, float]:
    """Of one pass of the discriminator, and of the generator."""
    width, features = config.discriminator_width, config.discriminator_features
    spec = GeneratorSpec("residual", shape, classes, config.latent, config.width)
    return (
        count_multiplications(
            lambda: Discriminator(shape, classes, width, features), (shape, (classes,))
        ),
        count_multiplications(spec.build, ((config.latent,), (classes,))),
    )


def _discriminator_step(
    config: GanConfig, pair: AdversarialPair, sgd: DPSGDSession, step: int
) -> None:
    outside = pair.fake_gradients(step) if config.fake == "outside" else None
    sgd.step(public_grads=outside)
    pair.discriminator_optimizer.step()


def _speed(config: GanConfig, pair: AdversarialPair, device: torch.device) -> Speed:
    """Micro-batches that hold almost every draw whole, where memory allows.

    A draw that is slightly larger than a micro-batch would cost a second, padded one.
    """
    memory = _GRADIENT_BYTES["cuda" if device.type == "cuda" else "cpu"]
    fitting = max(1, memory // (4 * pair.discriminator_size))
    roomy = math.ceil(config.batch + 4 * math.sqrt(config.batch))
    rows = config.micro_batch or min(fitting, roomy)
    return Speed(micro_batch=rows, precision=config.precision)
