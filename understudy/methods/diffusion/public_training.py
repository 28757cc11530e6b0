"""Ordinary training of a denoiser on images that are public, or noisy means already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from understudy.methods.diffusion.denoiser_training import DenoiserTraining
from understudy.methods.diffusion.public_progress import PublicProgress
from understudy.nets.cuda_graph import Gradients, Inputs, capture_on
from understudy.nets.seeding import stream
from understudy.privacy.door.batch import Batch
from understudy.progress import Progress

_IMAGES, _LABEL = "images", "label"

Pick = Callable[[int, torch.Generator], tuple[torch.Tensor, torch.Tensor]]
"""So many images in [0, 1] with their codes, by this generator, and best on its device."""


@dataclass(frozen=True)
class PublicCourse:
    """How long and how fast; `purpose` names its bar and its random numbers."""

    purpose: str
    steps: int
    batch: int
    rate: float


def train_on_public(
    training: DenoiserTraining,
    pick: Pick,
    course: PublicCourse,
    seed: int,
    progress: Progress,
    reached: PublicProgress | None = None,
) -> None:
    """Steps on what `pick` gives; randomness is that of the public seed and the step.

    Afterwards the denoiser goes on from its averaged weights with a fresh optimiser. reached:
    where the same training was kept, and goes on after a stop; None begins anew.
    """
    reached = reached or PublicProgress(None)
    done = reached.take_up(training)
    device = training.device
    parameters = list(training.network.parameters())
    gradients = Gradients(_loss_of(training), parameters, capture_on(device), progress.say)
    with progress.task(course.purpose, course.steps) as bar:
        bar.advance(done)
        for step in range(done, course.steps):
            images, codes = pick(course.batch, stream(seed, course.purpose, step, device=device))
            random = stream(seed, course.purpose, step, "draws", device=device)
            draws = _draws(training, course.batch, random)
            gradients({_IMAGES: images.to(device), _LABEL: codes.to(device), **draws})
            training.advance(step, course.steps, course.rate)
            reached.keep_sometimes(training, step + 1)
            bar.advance()
    training.begin_again()


def _loss_of(training: DenoiserTraining) -> Callable[[Inputs], torch.Tensor]:
    """The mean loss of images with their codes and draws."""
    device, half = training.device, training.config.precision == "bfloat16"

    def loss(inputs: Inputs) -> torch.Tensor:
        draws = {name: inputs[name] for name in training.draws}
        batch = Batch(inputs[_IMAGES], {_LABEL: inputs[_LABEL]}, draws, _LABEL)
        with torch.autocast(device.type, torch.bfloat16, enabled=half, cache_enabled=False):
            return training.loss([training.network], batch, {}).mean()

    return loss


def _draws(
    training: DenoiserTraining, rows: int, random: torch.Generator
) -> dict[str, torch.Tensor]:
    """What the loss asks for, from the public seed: these images are not private."""
    drawn = {}
    for name, shape in training.draws.items():
        draw = torch.rand if name.startswith("uniform") else torch.randn
        drawn[name] = draw((rows, *shape), generator=random, device=random.device)
    return drawn
