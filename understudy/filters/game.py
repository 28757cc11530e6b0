"""Training a filter: a game against an adversary that learns beside it.

The adversary reads the hidden labels from filtered latents, a second set of heads reads the
kept ones; the filter moves latents so that the first fails and the second does not, inside its
distortion budget. What the adversary fails at is a *lower* bound on the information that is left
(its cross-entropy against the label's entropy), so the figure that counts is that of attackers
trained afresh on what was sent, never the game's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.filters.choice import Choice, Codes, codes_of, joint_codes, refuse_impossible
from understudy.filters.distortion import Distortion, Numbers, Perturbation
from understudy.filters.model import (
    KINDS,
    FilterShape,
    LatentFilter,
    checked_variances,
    perturbation_of,
    round_to_half,
)
from understudy.methods.config import setting
from understudy.nets.seeding import built, stream
from understudy.progress import Progress, Silent

_FALL = 0.95
_WHILE_TRAINING = 1e-3
_ROUNDINGS = 16
_LEAST_SHRINK = 1e-6
"""How far the filter's learning rate falls; how exactly budgets are met on the way; and how a
filter is rounded to half precision without leaving its budget."""


@dataclass(frozen=True)
class GameConfig:
    """How a filter is trained; the defaults suit 10,000 records on one core in seconds."""

    kind: str = setting("linear", "the filter's form", choices=KINDS)
    hidden: int = setting(16, "hidden units of a network filter", low=1, high=512)
    utility_weight: float = setting(
        1.0, "beta: the weight of the kept labels against the hidden ones", low=0.0
    )
    recovery_weight: float | None = setting(
        None,
        "the weight of what else a latent holds besides the labels; none: 1 where no label is "
        "kept, else 0",
        low=0.0,
    )
    steps: int = setting(350, "steps of the filter", low=1)
    head_steps: int = setting(2, "steps of the heads before each step of the filter", low=1)
    batch: int = setting(512, "records a step", low=2)
    head_width: int = setting(48, "units of each hidden layer of the heads", low=1)
    head_layers: int = setting(2, "hidden layers of the heads", low=1, high=8)
    filter_rate: float = setting(0.02, "Adam's learning rate of the filter, falling", low=0.0)
    head_rate: float = setting(0.01, "Adam's learning rate of the heads", low=0.0)


@dataclass(frozen=True)
class TrainedFilter:
    """A filter with the reference it was held to, and the distortion that it has there."""

    model: LatentFilter
    choice: Choice
    distortion: Distortion
    variances: Numbers
    measured: float


def train_filter(
    records: Records,
    choice: Choice,
    distortion: Distortion,
    config: GameConfig | None = None,
    *,
    variances: Numbers | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrainedFilter:
    """A filter for one user's choice, trained on that user's own latents.

    Guarantee: none in the sense of differential privacy; what it hides is measured by fresh
    attackers. What is enforced is the distortion: on these records it is at most the budget.

    records: latents `[N, d]` with the attributes of the choice.
    variances: of the reference, per coordinate; those of `records` unless given.
    """
    settings = config or GameConfig()
    _check_latents(records)
    refuse_impossible(records, choice)
    game = _Game(records, choice, distortion, settings, variances, seed)
    shown = progress or Silent()
    with shown.task("train the filter", settings.steps) as bar:
        for step in range(settings.steps):
            game.step(step)
            bar.advance()
    return game.finished()


class _Heads(nn.Module):
    """One reader for every label, and one for what else a latent holds."""

    def __init__(
        self, latent: int, hidden: Sequence[int], kept: Sequence[int], config: GameConfig
    ) -> None:
        super().__init__()
        self.adversaries = nn.ModuleList(_reader(latent, k, config) for k in hidden)
        self.utilities = nn.ModuleList(_reader(latent, k, config) for k in kept)
        self.recovery = _reader(latent, latent, config)

    def losses(self, sent: torch.Tensor, batch: _Batch) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Cross-entropy of each hidden label, then the sum of those of the kept ones."""
        hidden = [
            F.cross_entropy(reader(sent), batch.hidden[:, i])
            for i, reader in enumerate(self.adversaries)
        ]
        kept = sent.new_zeros(())
        for i, reader in enumerate(self.utilities):
            kept = kept + F.cross_entropy(reader(sent), batch.kept[:, i])
        return hidden, kept

    def unrecovered(self, sent: torch.Tensor, batch: _Batch) -> torch.Tensor:
        """The share of the residuals' variance that cannot be read, as a mean square."""
        return F.mse_loss(self.recovery(sent), batch.residuals)


@dataclass(frozen=True)
class _Batch:
    z: torch.Tensor
    hidden: torch.Tensor
    kept: torch.Tensor
    residuals: torch.Tensor

    def part(self, rows: torch.Tensor) -> _Batch:
        return _Batch(self.z[rows], self.hidden[rows], self.kept[rows], self.residuals[rows])


class _Game:
    """One training under way."""

    def __init__(
        self,
        records: Records,
        choice: Choice,
        distortion: Distortion,
        config: GameConfig,
        variances: Numbers | None,
        seed: int,
    ) -> None:
        self.choice, self.distortion, self.config = choice, distortion, config
        self.all = _batch_of(records, choice)
        latents = np.asarray(records.features, np.float64)
        self.variances = checked_variances(latents.var(axis=0) if variances is None else variances)
        private = [len(records.schema.attribute(n).classes) for n in choice.private]
        useful = [len(records.schema.attribute(n).classes) for n in choice.useful]
        shape = FilterShape(latents.shape[1], tuple(private), config.kind, config.hidden)
        self.model = built(shape.build, seed, "filter")
        self.heads = built(lambda: _Heads(shape.latent, private, useful, config), seed, "heads")
        weight = config.recovery_weight
        self.recovery = (0.0 if useful else 1.0) if weight is None else weight
        self.entropies = [_entropy(self.all.hidden[:, i]) for i in range(len(private))]
        self.random = stream(seed, "batches and noise")
        combinations, counts = torch.unique(self.all.hidden, dim=0, return_counts=True)
        self.combinations, self.counts = combinations, counts.numpy()
        self._filter_adam = torch.optim.Adam(
            self.model.parameters(), config.filter_rate, betas=(0.5, 0.99), fused=True
        )
        self._head_adam = torch.optim.Adam(
            self.heads.parameters(), config.head_rate, betas=(0.9, 0.99), fused=True
        )

    def step(self, number: int) -> None:
        """The heads learn on what is sent now; then the filter moves, and is brought to budget."""
        for _ in range(self.config.head_steps):
            batch = self._drawn()
            with torch.no_grad():
                sent = self._sent(batch)
            hidden, kept = self.heads.losses(sent, batch)
            loss = torch.stack(hidden).sum() + kept
            if self.recovery:
                loss = loss + self.heads.unrecovered(sent, batch)
            _descend(self._head_adam, loss)
        for group in self._filter_adam.param_groups:
            group["lr"] = self.config.filter_rate * (1 - _FALL * number / self.config.steps)
        batch = self._drawn()
        _descend(self._filter_adam, self._filter_loss(batch))
        self.model.shrink(self.distortion.largest_scale(self._change(batch), _WHILE_TRAINING))

    def finished(self) -> TrainedFilter:
        """The filter with half-precision values, within its budget on all records."""
        for attempt in range(_ROUNDINGS):
            change = self._change_of_all()
            # Less each time: a change below half precision's steps would be rounded away.
            scale = self.distortion.largest_scale(change) * (1 - _LEAST_SHRINK * 2**attempt)
            self.model.shrink(scale)
            round_to_half(self.model)
            measured = self.distortion.measure(self._change_of_all())
            if measured <= self.distortion.budget:
                return TrainedFilter(
                    self.model.eval(), self.choice, self.distortion, self.variances, measured
                )
        raise ArithmeticError("the filter could not be brought within its budget")

    def _change_of_all(self) -> Perturbation:
        return perturbation_of(self.model, self.all.z, self.all.hidden, self.variances)

    def _filter_loss(self, batch: _Batch) -> torch.Tensor:
        """What the adversary still reads, never rewarded below nothing, and what is lost.

        An adversary that is worse than guessing has been misled, not starved: a fresh one
        would read what it misreads.
        """
        sent = self._sent(batch)
        hidden, kept = self.heads.losses(sent, batch)
        read = [F.relu(h - loss) for h, loss in zip(self.entropies, hidden, strict=True)]
        loss = torch.stack(read).sum() + self.config.utility_weight * kept
        if self.recovery:
            loss = loss + self.recovery * self.heads.unrecovered(sent, batch)
        return loss

    def _sent(self, batch: _Batch) -> torch.Tensor:
        noise = torch.randn(batch.z.shape, generator=self.random)
        sent: torch.Tensor = self.model(batch.z, batch.hidden, noise)
        return sent

    def _drawn(self) -> _Batch:
        size = self.config.batch
        return self.all.part(torch.randint(len(self.all.z), (size,), generator=self.random))

    @torch.no_grad()
    def _change(self, batch: _Batch) -> Perturbation:
        """Of the linear filter exactly; of a network, estimated on the batch."""
        if self.model.shape.kind == "linear":
            shifts = self.model.shift(self.combinations, self.combinations)
            return Perturbation.of(
                self.model.noise.numpy(), shifts.numpy(), self.counts, self.variances
            )
        return perturbation_of(self.model, batch.z, batch.hidden, self.variances)


def _batch_of(records: Records, choice: Choice) -> _Batch:
    z = torch.from_numpy(np.array(records.features, np.float32))
    hidden = [codes_of(records, name) for name in choice.private]
    kept = [codes_of(records, name) for name in choice.useful]
    columns = [
        np.stack(c, axis=1) if c else np.zeros((len(z), 0), np.int64) for c in (hidden, kept)
    ]
    residuals = _residuals(records, joint_codes(hidden, len(records)))
    return _Batch(z, torch.from_numpy(columns[0]), torch.from_numpy(columns[1]), residuals)


def _residuals(records: Records, groups: Codes) -> torch.Tensor:
    """Latents less the mean of their private labels, in units of their spread.

    What a latent holds besides the hidden labels. Asking that it can be read from what is sent
    keeps attributes that nobody named, without asking for the hidden ones.
    """
    latents = np.asarray(records.features, np.float64)
    counts = np.maximum(np.bincount(groups), 1)
    sums = np.zeros((len(counts), latents.shape[1]))
    np.add.at(sums, groups, latents)
    rest = latents - (sums / counts[:, None])[groups]
    return torch.from_numpy((rest / np.maximum(rest.std(axis=0), 1e-6)).astype(np.float32))


def _check_latents(records: Records) -> None:
    if records.is_images or records.features.ndim != 2:
        raise UserError("a filter works on latents [count, d]; encode the records first.")
    if not np.isfinite(records.features).all():
        raise UserError("the latents hold values that are not finite numbers.")


def _reader(latent: int, classes: int, config: GameConfig) -> nn.Module:
    layers: list[nn.Module] = []
    for width in [latent] + [config.head_width] * (config.head_layers - 1):
        layers += [nn.Linear(width, config.head_width), nn.ELU()]
    return nn.Sequential(*layers, nn.Linear(config.head_width, classes))


def _entropy(codes: torch.Tensor) -> float:
    shares = torch.bincount(codes).double() / len(codes)
    return float(-(shares * shares.clamp(min=1e-300).log()).sum())


def _descend(optimiser: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    optimiser.step()
