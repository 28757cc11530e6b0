"""One denoiser in training: on private records through the door, or on public images."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

from understudy.methods.diffusion.denoising import NoiseLevels, Preconditioning
from understudy.methods.diffusion.network import NetworkSpec
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.nets.averaging import average_into
from understudy.nets.packing import pack_module, pack_optimizer, unpack_module, unpack_optimizer
from understudy.nets.seeding import built
from understudy.privacy.door.batch import MIRRORED, PAIRED, Batch, Draws
from understudy.privacy.dpsgd.loss import Models, Values
from understudy.privacy.ledger.state import State

_LAST_RATE = 0.02


class DrawNames(NamedTuple):
    """What the draws of a loss are called; names say how they are distributed."""

    level: str
    noise: str = "noise"
    drop: str = "uniform_drop"
    flip: str = "uniform_flip"
    choice: str = "uniform_label"

    @classmethod
    def of(cls, config: DiffusionConfig) -> DrawNames:
        plain = cls(config.noise_levels.draw)
        if not config.noise_pairs:
            return plain
        paired = cls(*(name + PAIRED for name in plain))
        return paired._replace(noise=plain.noise + MIRRORED)


class DenoiserTraining:
    """A denoiser, its running average and its optimiser.

    Initial weights come from the public seed. What it learns from records comes in as
    gradients that are already noised, so its state may be kept and released.
    """

    def __init__(
        self, config: DiffusionConfig, spec: NetworkSpec, seed: int, device: torch.device
    ) -> None:
        self.config, self.spec, self.device = config, spec, device
        self.network = built(spec.build, seed, "denoiser").to(device)
        self.average = copy.deepcopy(self.network).requires_grad_(False)
        self.optimizer = self._fresh_optimizer()
        self._names = DrawNames.of(config)
        self.loss = DenoisingLoss(
            config.noise_levels,
            config.preconditioning,
            self._names,
            spec.classes,
            config.label_drop,
            config.flip,
            config.level_balance,
        )

    @property
    def draws(self) -> Draws:
        """The randomness that the loss needs with each row, all of it the door's."""
        names = self._names
        single = [names.level, names.drop, names.choice]
        if self.config.flip:
            single.append(names.flip)
        return {names.noise: self.spec.shape, **dict.fromkeys(single, ())}

    def advance(self, step: int, steps: int, rate: float) -> None:
        """One step of the optimiser on gradients that are there, and of the average."""
        self.optimizer.param_groups[0]["lr"] = rate * self._share_of_rate(step, steps)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        average_into(self.average, self.network, self.config.average, step)

    def begin_again(self) -> None:
        """Go on from the averaged weights, as after public or post-processed training."""
        self.network.load_state_dict(self.average.state_dict())
        self.optimizer = self._fresh_optimizer()

    def snapshot(self) -> State:
        tensors = pack_module("network", self.network) | pack_module("average", self.average)
        return State(tensors | pack_optimizer("optimizer", self.optimizer))

    def load(self, state: State) -> None:
        unpack_module("network", self.network, state.tensors)
        unpack_module("average", self.average, state.tensors)
        unpack_optimizer("optimizer", self.optimizer, state.tensors)

    def _fresh_optimizer(self) -> torch.optim.Adam:
        betas = (self.config.momentum, 0.999)
        return torch.optim.Adam(self.network.parameters(), self.config.learning_rate, betas)

    def _share_of_rate(self, step: int, steps: int) -> float:
        rise = min(1.0, (step + 1) / (self.config.warm_up + 1))
        if self.config.decay == "constant":
            return rise
        cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
        return rise * (_LAST_RATE + (1 - _LAST_RATE) * cosine)


@dataclass(frozen=True)
class DenoisingLoss:
    """A record's denoising loss at its own noise level, with its own noise.

    Guarantee: a row's value depends on that row, its label and its draws alone.
    """

    levels: NoiseLevels
    scaling: Preconditioning
    names: DrawNames
    classes: int
    label_drop: float
    flip: bool
    balance: float

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del values
        draws, names = batch.draws, self.names
        images = 2 * batch.features - 1
        if self.flip:
            heads = draws[names.flip].reshape(-1, 1, 1, 1) < 0.5
            images = torch.where(heads, images.flip(-1), images)
        codes = chosen_codes(batch.labels, draws[names.choice])
        codes = codes.masked_fill(draws[names.drop] < self.label_drop, self.classes)
        sigma = self.levels.of(draws[names.level])
        losses = self.scaling.losses(models[0], images, draws[names.noise], sigma, codes)
        return losses / sigma.clamp(min=1.0) ** self.balance


def chosen_codes(labels: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Codes as they are; of probabilities, one class drawn by them with a uniform value."""
    if labels.ndim == 1:
        return labels
    passed = labels.cumsum(dim=1) < uniform.reshape(-1, 1)
    return passed.sum(dim=1).clamp(max=labels.shape[1] - 1)
