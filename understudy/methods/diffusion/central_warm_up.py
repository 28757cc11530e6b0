"""What DP-FETA learns before its private steps: images made of what was released of each class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from understudy.methods.contract import Context
from understudy.methods.diffusion.central_axes import CentralAxes, products_of
from understudy.methods.diffusion.central_images import CentralImages, vectors_of
from understudy.methods.diffusion.central_spread import CentralSpread
from understudy.methods.diffusion.central_views import as_shapes, moved
from understudy.methods.diffusion.denoiser_training import DenoiserTraining, chosen_codes
from understudy.methods.diffusion.feta_settings import FetaConfig
from understudy.methods.diffusion.public_training import Pick, train_on_public
from understudy.privacy.door.batch import Batch
from understudy.privacy.plan.mechanisms import NoisySum
from understudy.privacy.plan.plan import Plan
from understudy.privacy.sums.clipping import Blocks

if TYPE_CHECKING:
    from understudy.privacy.door.private_records import PrivateRecords

CENTRAL, AXES = "central images", "central axes"


def learn_central_images(
    config: FetaConfig,
    training: DenoiserTraining,
    private: PrivateRecords,
    plan: Plan,
    context: Context,
) -> None:
    """Guarantee: post-processing of one noisy sum, or of two with axes; both are planned."""
    central = _released_images(config, training, private, plan, context.seed)
    if config.central_axes_share:
        means = central.class_means()
        apart = _released_apart(config, training, means, private, plan)
        pick = drawn_along(means.to(training.device), apart.to(training.device), config)
    else:
        pick = picked(central.to(training.device), config)
    train_on_public(training, pick, config.course, context.seed, context.progress)


def _released_images(
    config: FetaConfig, training: DenoiserTraining, private: PrivateRecords, plan: Plan, seed: int
) -> CentralImages:
    """Guarantee: post-processing of one noisy sum of clip `central_clip`, as planned."""
    settings = config.central(training.spec.shape, training.spec.classes, seed)
    noisy, noise = _released(CENTRAL, vectors_of(settings), private, plan)
    return CentralImages.read(noisy, settings, private.count, noise)


def _released_apart(
    config: FetaConfig,
    training: DenoiserTraining,
    means: torch.Tensor,
    private: PrivateRecords,
    plan: Plan,
) -> CentralAxes | CentralSpread:
    """Guarantee: post-processing of one noisy sum of clip `products_clip`, as planned.

    It is formed around means that were released before, which composition allows.
    """
    settings = config.axes(training.spec.shape, training.spec.classes)
    noisy, noise = _released(AXES, products_of(settings, means), private, plan)
    reading = CentralSpread if config.central_spread else CentralAxes
    return reading.read(noisy, settings, private.count, noise)


def _released(
    name: str,
    vector_of: Callable[[Batch], torch.Tensor | Blocks],
    private: PrivateRecords,
    plan: Plan,
) -> tuple[torch.Tensor, float]:
    """The planned noisy sum of this name, and the standard deviation of its noise."""
    planned = plan.mechanism(name, NoisySum)
    noisy = private.noisy_sum(vector_of, clip=planned.clip, sigma=planned.sigma)
    return noisy, planned.clip * planned.sigma


def drawn_along(
    means: torch.Tensor, apart: CentralAxes | CentralSpread, config: FetaConfig
) -> Pick:
    """Classes evenly; every image is the mean of its class and a draw of how it may differ."""

    def pick(rows: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(len(means), (rows,), generator=random, device=random.device)
        chosen = means[labels]
        images = (chosen + apart.apart(labels, random).reshape_as(chosen)).clamp(0, 1)
        return as_shapes(images, config.central_shapes, config.central_ground, random), labels

    return pick


def picked(central: CentralImages, config: FetaConfig) -> Pick:
    """Classes evenly, central images of a class by their noisy counts, each seen anew."""
    weights = central.weights_of_classes()
    classes = len(weights)
    shares, each = weights / weights.sum(dim=1, keepdim=True), weights.shape[1]

    def pick(rows: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(classes, (rows,), generator=random, device=random.device)
        # Not by torch.multinomial, for whose checks the host waits until the GPU is through.
        uniform = torch.rand(rows, generator=random, device=random.device)
        cells = chosen_codes(shares[labels], uniform)
        images = moved(central.images[labels * each + cells], random)
        return as_shapes(images, config.central_shapes, config.central_ground, random), labels

    return pick
