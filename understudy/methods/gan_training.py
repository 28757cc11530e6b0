"""The two networks of a conditional GAN and the steps that train them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional as F

from understudy.nets.averaging import average_into, refresh_statistics
from understudy.nets.discriminator import Discriminator
from understudy.nets.generators import GeneratorSpec
from understudy.nets.packing import (
    pack_module,
    pack_optimizer,
    unpack_module,
    unpack_optimizer,
)
from understudy.nets.per_example.twins import trainable
from understudy.nets.per_example.vmap import VmapBackend
from understudy.nets.seeding import built, stream
from understudy.nets.sizes import Shape
from understudy.privacy.door.batch import Batch, Draws
from understudy.privacy.dpsgd.loss import Models, Values
from understudy.privacy.ledger.state import State
from understudy.privacy.sums.clipping import ClippedSum
from understudy.privacy.sums.gradient_pieces import Pieces

if TYPE_CHECKING:
    from understudy.methods.dp_gan import GanConfig

LATENT = "latent"
_LABEL = "label"
_FAKES_AT_ONCE = 128


class AdversarialPair:
    """Generator, its running average, and discriminator, with their optimisers.

    All randomness comes from the public seed and the number of the step, so a resumed run
    goes on as an uninterrupted one would have.
    """

    def __init__(
        self, config: GanConfig, shape: Shape, classes: int, seed: int, device: torch.device
    ) -> None:
        self._config, self._seed, self._device = config, seed, device
        self.spec = GeneratorSpec("residual", shape, classes, config.latent, config.width)
        self.generator = built(self.spec.build, seed, "generator").to(device).eval()
        self.average = copy.deepcopy(self.generator)
        self._shown = copy.deepcopy(self.generator).requires_grad_(False)
        self.discriminator = built(
            lambda: Discriminator(
                shape, classes, config.discriminator_width, config.discriminator_features
            ),
            seed,
            "discriminator",
        ).to(device)
        betas = (config.momentum, 0.999)
        self.generator_optimizer = torch.optim.Adam(
            self.generator.parameters(), config.learning_rate, betas
        )
        self.discriminator_optimizer = torch.optim.Adam(
            self.discriminator.parameters(), config.discriminator_rate, betas
        )

    @property
    def discriminator_size(self) -> int:
        return sum(p.numel() for p in trainable([self.discriminator]))

    @property
    def draws(self) -> Draws:
        """The randomness that `record_loss` needs with each record."""
        return {LATENT: (self.spec.latent,)} if self._config.fake == "inside" else {}

    @property
    def models(self) -> list[torch.nn.Module]:
        """What DP-SGD is bound to: the discriminator, which it trains, and, where a record's loss
        holds a fake, a copy of the generator, which it reads."""
        return [self.discriminator, self._shown] if self.draws else [self.discriminator]

    @property
    def record_loss(self) -> RecordLoss:
        return RecordLoss(self._config.loss, self.spec.classes)

    def fake_gradients(self, step: int) -> list[torch.Tensor]:
        """The mean gradient of a constant number of fakes, each clipped like a record's.

        They are public: made from the generator and the seed. Clipping them keeps the two
        sides of the discriminator's task in balance.
        """
        rows, loss = self._config.fake_batch, FakeLoss(self._config.loss)
        latents, labels = self._latents_and_labels(rows, "fakes", step)
        with torch.no_grad():
            images = self.generator(latents, labels)

        backend = VmapBackend([self.discriminator])
        total = ClippedSum(self._config.clip, self.discriminator_size, self._device, single=True)
        for start in range(0, rows, _FAKES_AT_ONCE):
            some = slice(start, start + _FAKES_AT_ONCE)
            batch = Batch(images[some], {_LABEL: labels[some]}, {}, _LABEL)
            values, gradients = backend.per_example(loss, batch, {}, 1)
            total.add(Pieces(gradients), np.arange(len(values)))
        parameters = trainable([self.discriminator])
        mean = torch.split((total.finish() / rows).float(), [p.numel() for p in parameters])
        return [m.reshape(p.shape) for m, p in zip(mean, parameters, strict=True)]

    def generator_step(self, number: int) -> None:
        """One step against the discriminator, with labels that no record gave."""
        config = self._config
        real, _ = _LOSSES[config.loss]
        latents, labels = self._latents_and_labels(config.generator_batch, "generator", number)
        self.generator.train()
        self.discriminator.requires_grad_(False)
        scores = self.discriminator(self.generator(latents, labels), labels)
        loss = -scores.mean() if config.loss == "hinge" else real(scores).mean()
        self.generator_optimizer.zero_grad()
        loss.backward()
        self.generator_optimizer.step()
        self.discriminator.requires_grad_(True)
        self.generator.eval()
        average_into(self.average, self.generator, config.average, number)
        self._shown.load_state_dict(self.generator.state_dict())

    def finished(self) -> torch.nn.Module:
        """The averaged generator, its normalisation measured on its own images."""
        refresh_statistics(
            self.average, [self._latents_and_labels(1000, "statistics", i) for i in range(10)]
        )
        return self.average

    def snapshot(self) -> State:
        tensors = {}
        for name, module in self._modules().items():
            tensors.update(pack_module(name, module))
        for name, optimizer in self._optimizers().items():
            tensors.update(pack_optimizer(name, optimizer))
        return State(tensors)

    def load(self, state: State) -> None:
        for name, module in self._modules().items():
            unpack_module(name, module, state.tensors)
        for name, optimizer in self._optimizers().items():
            unpack_optimizer(name, optimizer, state.tensors)
        self._shown.load_state_dict(self.generator.state_dict())

    def _modules(self) -> dict[str, torch.nn.Module]:
        return {
            "generator": self.generator,
            "average": self.average,
            "discriminator": self.discriminator,
        }

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {
            "generator_optimizer": self.generator_optimizer,
            "discriminator_optimizer": self.discriminator_optimizer,
        }

    def _latents_and_labels(
        self, rows: int, purpose: str, step: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        random = stream(self._seed, purpose, step, device=self._device)
        latents = torch.randn(rows, self.spec.latent, generator=random, device=self._device)
        codes = torch.randint(self.spec.classes, (rows,), generator=random, device=self._device)
        return latents, class_weights(codes, self.spec.classes)


@dataclass(frozen=True)
class RecordLoss:
    """A record's loss: that it be called real, and that its own fake, if it has one, be not.

    Guarantee: a row's value depends on that row, its label and its draws alone. The generator is in
    evaluation mode, a fixed function; nothing flows back into it.
    """

    kind: str
    classes: int

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del values
        real, fake = _LOSSES[self.kind]
        discriminator, *generators = models
        labels = class_weights(batch.labels, self.classes)
        value = real(discriminator(batch.features, labels))
        for generator in generators:
            with torch.no_grad():
                made = generator(batch.draws[LATENT], labels)
            value = value + fake(discriminator(made, labels))
        return value


@dataclass(frozen=True)
class FakeLoss:
    """That a generated image be called a fake; its label is the class weights it was made with."""

    kind: str

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del values
        _, fake = _LOSSES[self.kind]
        return fake(models[0](batch.features, batch.labels))


def class_weights(labels: torch.Tensor, classes: int) -> torch.Tensor:
    """Codes as one-hot rows; probabilities as they are."""
    if labels.ndim == 2:
        return labels
    return (labels[:, None] == torch.arange(classes, device=labels.device)).float()


Side = Callable[[torch.Tensor], torch.Tensor]
"""From scores to a loss each; low when the discriminator is right."""

_LOSSES: dict[str, tuple[Side, Side]] = {
    "logistic": (lambda scores: F.softplus(-scores), F.softplus),
    "hinge": (lambda scores: F.relu(1 - scores), lambda scores: F.relu(1 + scores)),
}
