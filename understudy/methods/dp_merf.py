"""DP-MERF: one noisy mean embedding per class, and a generator trained to match it.

After Harder, Adamczewski and Park (2021). The only access to private records is one sum
of random Fourier features; everything else is post-processing of that sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from understudy.errors import UserError
from understudy.methods.config import setting
from understudy.methods.contract import Context, Facts, Loop, LoopKind, PublicInputs
from understudy.methods.info import MethodInfo
from understudy.methods.synthesizer import GeneratorSynthesizer
from understudy.nets.averaging import average_into, refresh_statistics
from understudy.nets.fourier import Component, FourierFeatures, draw_frequencies
from understudy.nets.generators import GeneratorSpec
from understudy.nets.seeding import built, stream
from understudy.nets.sizes import Shape, image_shape
from understudy.privacy.door.batch import Batch
from understudy.privacy.plan.mechanisms import Mechanism, NoisySum
from understudy.privacy.plan.plan import Plan, Spend
from understudy.privacy.sums.clipping import Blocks

if TYPE_CHECKING:
    from understudy.privacy.door.private_records import PrivateRecords

RELEASE = "embedding"
BAR = "training the generator"
CLIP = 1.0
_WARM_UP_STEPS = 50
_LAST_RATE = 0.02


@dataclass(frozen=True)
class MerfConfig:
    """Settings of DP-MERF. None is measured on private records."""

    features: int = setting(10000, "random features (cosines and sines together)", low=2)
    bandwidths: tuple[float, ...] = setting(
        (0.032,),
        "squared bandwidth of each kernel, as a mean squared difference per pixel",
        low=1e-6,
    )
    blurs: tuple[float, ...] = setting(
        (0.0,), "blur in pixels before each kernel compares (0: none)", low=0.0, high=32.0
    )
    windows: tuple[int, ...] = setting(
        (0,), "side in pixels of the window that each kernel compares (0: whole image)", low=0
    )
    mass: float = setting(
        0.02,
        "part of the squared norm that counts each class's records (0: classes are taken as "
        "equally frequent)",
        low=0.0,
        high=0.5,
    )
    generator: str = setting(
        "spline",
        "network: spline (smooth, cheap) or merf (the paper's)",
        choices=("spline", "merf"),
    )
    latent: int = setting(16, "random values per image", low=1)
    width: int = setting(512, "size of the generator's dense layers", low=8)
    grid: int = setting(
        0, "cells a side of the spline generator (0: half the pixels, at least 8)", low=0
    )
    steps: int = setting(500, "generator steps", low=1)
    batch: int = setting(500, "generated images per step, shared evenly by the classes", low=2)
    features_per_step: int = setting(
        3000, "random features compared in one step (0: all of them)", low=0
    )
    learning_rate: float = setting(3e-3, "Adam's highest rate", low=1e-7, high=1.0)
    average: float = setting(0.99, "decay of the weights' running average", low=0.0, high=0.99999)

    def __post_init__(self) -> None:
        if not len(self.bandwidths) == len(self.blurs) == len(self.windows):
            raise UserError(
                "settings 'bandwidths', 'blurs' and 'windows' describe the same kernels; "
                "give as many of each."
            )

    @property
    def components(self) -> tuple[Component, ...]:
        columns = zip(self.bandwidths, self.blurs, self.windows, strict=True)
        return tuple(Component(*column) for column in columns)


class DPMerf:
    """Guarantee: (epsilon, delta) of one Gaussian release under add-or-remove one unit; of a
    discrete one, on an integer grid, unless the run asks for float noise.

    A record's vector is phi(x) (x) onehot(y), of L2 norm 1 (soft labels: at most 1); a
    unit's is the sum over its records, clipped to 1 by the door. The noisy sum is divided
    by declared counts only. The generator sees the noisy sum and the public seed.
    """

    info: ClassVar[MethodInfo] = MethodInfo(
        name="dp-merf",
        summary="matches one noisy mean of random Fourier features per class",
        paper="Harder, Adamczewski, Park: DP-MERF (AISTATS 2021), arXiv:2002.11603",
        family="one-shot features",
        mechanism="one Gaussian release of a clipped sum",
        changed_for_soundness=(
            "Kernel bandwidths are fixed from public data; the paper takes them from the "
            "private records by a median heuristic, outside the budget.",
            "The sum is divided by the declared count; the paper treats the realised number "
            "of records as public.",
            "How often each class occurs is part of the one noisy release; synthetic labels "
            "are uniform or the caller's.",
            "The neighbouring relation is add-or-remove one unit (sensitivity 1 of the sum); "
            "the paper's is replace-one (2 over n of the mean).",
        ),
    )
    Config: ClassVar[type] = MerfConfig
    Output: ClassVar[type] = GeneratorSynthesizer

    def spend(self, config: MerfConfig, facts: Facts) -> Spend:
        """One noisy sum with clip 1, whatever the settings."""
        del config
        image_shape(facts.shape, "dp-merf")
        if facts.classes < 1 or facts.count < 1:
            raise UserError("dp-merf needs at least one record and one class.")

        def planned(sigma: float) -> Sequence[Mechanism]:
            return (NoisySum(RELEASE, clip=CLIP, sigma=sigma),)

        return planned

    def loops(self, config: MerfConfig, facts: Facts, samples: int) -> Sequence[Loop]:
        """Generated images are compared with some features in each step; drawing takes no time."""
        del samples
        each = min(config.features, config.features_per_step or config.features)
        work = math.prod(facts.shape) * each
        return (Loop(BAR, "steps", config.steps, LoopKind.MATCHING, config.batch, work),)

    def gigabytes(self, config: MerfConfig, facts: Facts) -> float:
        del config
        return 0.6 + 20e-9 * facts.counts["train"] * math.prod(facts.shape)

    def fit(
        self,
        config: MerfConfig,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> GeneratorSynthesizer:
        """Release the embedding, then train on it. After a restart the release is given
        back as it was, and training starts again from the seed."""
        del public
        private = parts["train"]
        shape, classes = image_shape(private.shape, "dp-merf"), len(private.schema.classes)
        features = make_features(config, shape, context.seed, context.device)
        planned = plan.mechanism(RELEASE, NoisySum)
        noisy = private.noisy_sum(
            conditional(features, classes), clip=planned.clip, sigma=planned.sigma
        )
        targets = Targets.read(noisy.to(context.device), features, classes, private.count)
        spec = GeneratorSpec(
            config.generator, shape, classes, config.latent, config.width, grid_of(config, shape)
        )
        generator = train_generator(config, spec, features, targets, context)
        return GeneratorSynthesizer(spec, generator, private.schema)


def make_features(
    config: MerfConfig, shape: Shape, seed: int, device: torch.device
) -> FourierFeatures:
    """The feature map, from the public seed: the same at every start of a run."""
    generator = stream(seed, "frequencies")
    count = max(1, config.features // 2)
    frequencies = draw_frequencies(config.components, count, shape, generator)
    return FourierFeatures(frequencies.to(device), config.mass)


def conditional(
    features: Callable[[torch.Tensor], torch.Tensor], classes: int
) -> Callable[[Batch], torch.Tensor | Blocks]:
    """phi(x) (x) label: a record's features, in the block of its class.

    Guarantee: norm at most that of phi(x) for one-hot and probability labels.
    """

    def vector_of(batch: Batch) -> torch.Tensor | Blocks:
        values, labels = features(batch.features), batch.labels
        if labels.ndim == 1:
            return Blocks(values, labels, classes)
        return (labels[:, :, None] * values[:, None, :]).flatten(1)

    return vector_of


@dataclass(frozen=True)
class Targets:
    """What the noisy sum says of each class, with declared counts as the only divisor.

    waves: mean cosines and sines `[classes, 2 frequencies]`, times the class's share.
    share: how frequent the class is, relative to `count / classes`.
    """

    waves: torch.Tensor
    share: torch.Tensor

    @staticmethod
    def read(noisy: torch.Tensor, features: FourierFeatures, classes: int, count: int) -> Targets:
        per_class = noisy.reshape(classes, features.width) * (classes / count)
        share = torch.ones(classes, device=noisy.device)
        if features.mass:
            share = (per_class[:, 0] / math.sqrt(features.mass)).clamp(min=0.0)
        return Targets(per_class[:, 1:] / features.scale, share)


def grid_of(config: MerfConfig, shape: Shape) -> int:
    return config.grid or max(8, max(shape[1:]) // 2)


def train_generator(
    config: MerfConfig,
    spec: GeneratorSpec,
    features: FourierFeatures,
    targets: Targets,
    context: Context,
) -> nn.Module:
    """A generator whose mean features per class match the targets: post-processing."""
    device = context.device
    generator = built(spec.build, context.seed, "generator").to(device)
    average = built(spec.build, context.seed, "generator").to(device)
    optimizer = torch.optim.Adam(generator.parameters(), lr=config.learning_rate)
    latents = stream(context.seed, "training latents", device=device)
    each = max(2, config.batch // spec.classes)
    labels = torch.eye(spec.classes, device=device).repeat_interleave(each, dim=0)

    def draw() -> tuple[torch.Tensor, torch.Tensor]:
        values = torch.randn(len(labels), spec.latent, generator=latents, device=device)
        return values, labels

    with context.progress.task(BAR, config.steps) as bar:
        for step in range(config.steps):
            optimizer.param_groups[0]["lr"] = _rate(config, step)
            some = _some_frequencies(config, len(features.frequencies), step)
            loss = embedding_distance(generator(*draw()), features.frequencies, targets, some)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            average_into(average, generator, config.average, step)
            bar.advance()
    refresh_statistics(average, [draw() for _ in range(20)])
    return average


def embedding_distance(
    images: torch.Tensor, frequencies: torch.Tensor, targets: Targets, some: slice
) -> torch.Tensor:
    """Squared distance of embeddings over some frequencies, up to a constant.

    `images` come class by class, equally many of each. The square of the generated mean
    is estimated without the bias that pairs an image with itself.
    """
    classes, chosen = len(targets.share), frequencies[some]
    each, count = len(images) // classes, len(chosen)
    angles = images.flatten(1) @ chosen.T
    cosines = angles.cos().reshape(classes, each, count).mean(dim=1)
    sines = angles.sin().reshape(classes, each, count).mean(dim=1)
    wanted_cosines, wanted_sines = targets.waves.chunk(2, dim=1)
    square = cosines.square().sum(dim=1) + sines.square().sum(dim=1)
    unbiased = (each * square - count) / (each - 1)
    product = (cosines * wanted_cosines[:, some] + sines * wanted_sines[:, some]).sum(dim=1)
    return (targets.share.square() * unbiased - 2 * targets.share * product).sum() / count


def _some_frequencies(config: MerfConfig, count: int, step: int) -> slice:
    """A different run of frequencies at each step; the distance is a sum over them."""
    size = min(count, config.features_per_step // 2 or count)
    start = (step % -(-count // size)) * size
    return slice(start, start + size)


def _rate(config: MerfConfig, step: int) -> float:
    """A short warm-up, then a cosine down to a fiftieth."""
    cosine = 0.5 * (1 + math.cos(math.pi * step / config.steps))
    fall = _LAST_RATE + (1 - _LAST_RATE) * cosine
    return config.learning_rate * min(1.0, (step + 1) / _WARM_UP_STEPS) * fall
