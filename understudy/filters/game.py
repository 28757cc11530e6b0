"""Training a filter: a game against an adversary that learns beside it.

The adversary reads the hidden labels from filtered latents, a second set of heads reads the
kept ones; the filter moves latents so that the first fails and the second does not, inside its
distortion budget. What the adversary fails at is a *lower* bound on the information that is left
(its cross-entropy against the label's entropy), so the figure that counts is that of attackers
trained afresh on what was sent, never the game's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.filters.batch import Batch, batch_of
from understudy.filters.choice import Choice, codes_of, joint_codes, refuse_impossible
from understudy.filters.distortion import Distortion, Numbers, Perturbation
from understudy.filters.heads import ClusterReader, Heads, Recovery
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

_FALL, _HEADS_FALL = 0.9, 0.5
_WARM_UP = 0.02
_BETWEEN = 8
_ESTIMATED_ON = 512
_WHILE_TRAINING = 1e-3
_ROUNDINGS = 16
_LEAST_SHRINK = 1e-6
"""How far the filter's learning rate falls; how exactly budgets are met on the way; and how a
filter is rounded to half precision without leaving its budget."""


_CLUSTER_UNITS = 32
"""Few: what is kept should stay readable to a small reader."""

Missed = Callable[[torch.Tensor], torch.Tensor]


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
    nearness_weight: float = setting(
        0.0, "the weight of the mean square of what is added to a coordinate", low=0.0
    )
    cluster_weight: float = setting(
        0.0,
        "the weight of telling clusters of records with the same hidden labels apart: what keeps "
        "attributes that nobody named",
        low=0.0,
    )
    clusters: int = setting(40, "clusters for each combination of hidden labels", low=2, high=512)
    steps: int = setting(350, "steps of the filter", low=1)
    head_steps: int = setting(2, "steps of the heads for each step of the filter", low=1)
    batch: int = setting(512, "records a step", low=2)
    head_width: int = setting(48, "units of each hidden layer of the heads", low=1)
    head_layers: int = setting(2, "hidden layers of the heads", low=1, high=8)
    filter_rate: float = setting(0.02, "Adam's learning rate of the filter, falling", low=0.0)
    head_rate: float = setting(0.01, "Adam's learning rate of the heads, falling", low=0.0)


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
        private = [len(a.classes) for a in choice.attributes(records, choice.private)]
        useful = [len(a.classes) for a in choice.attributes(records, choice.useful)]
        looked_for = config.clusters if config.cluster_weight else 0
        self.all = batch_of(records, choice, private, looked_for, seed)
        latents = np.asarray(records.features, np.float64)
        self.variances = checked_variances(latents.var(axis=0) if variances is None else variances)
        shape = FilterShape(latents.shape[1], tuple(private), config.kind, config.hidden)
        self.model = built(shape.build, seed, "filter")
        wide, deep = config.head_width, config.head_layers
        self.heads = built(lambda: Heads(shape.latent, private + useful, wide, deep), seed, "heads")
        self.recovery = built(lambda: Recovery(shape.latent, wide), seed, "recovery")
        groups = int(self.all.groups.max()) + 1
        self.cluster_reader = built(
            lambda: ClusterReader(shape.latent, groups, config.clusters, _CLUSTER_UNITS),
            seed,
            "clusters",
        )
        weight = config.recovery_weight
        self.recovery_weight = (0.0 if useful else 1.0) if weight is None else weight
        self.entropies = torch.tensor([_entropy(codes) for codes in self.all.codes[: len(private)]])
        self.random = stream(seed, "batches and noise")
        self.combinations, self.counts = _combinations(records, choice, self.all.onehot)
        self._filter_adam = _adam(self.model, config.filter_rate, 0.5)
        readers = nn.ModuleList([self.heads, self.recovery, self.cluster_reader])
        self._head_adam = _adam(readers, config.head_rate, 0.9)

    def step(self, number: int) -> None:
        """The heads learn on what is sent now; then the filter moves, and is brought to budget."""
        done = number / self.config.steps
        _set_rate(self._head_adam, self.config.head_rate * (1 - _HEADS_FALL * done))
        _set_rate(self._filter_adam, self.config.filter_rate * (1 - _FALL * done))
        for _ in range(self.config.head_steps - 1):
            self._learn()
        sent, pull = self._learn_and_pull()
        if number < _WARM_UP * self.config.steps:
            return
        self._filter_adam.zero_grad(set_to_none=True)
        torch.autograd.backward(sent, pull)
        self._filter_adam.step()
        if number % _BETWEEN == 0:
            self._into_budget()

    def _learn(self) -> None:
        """One step of the heads alone."""
        batch = self._drawn()
        with torch.no_grad():
            sent = self._sent(batch)
        self._head_adam.zero_grad(set_to_none=True)
        losses = self.heads.losses(sent.expand(len(batch.codes), *sent.shape), batch.codes)
        loss = losses.sum()
        for _, missed in self._unnamed(batch):
            loss = loss + missed(sent)
        torch.autograd.backward(loss)
        self._head_adam.step()

    def _learn_and_pull(self) -> tuple[torch.Tensor, torch.Tensor]:
        """One step of the heads; what was sent, and the slope of the filter's loss there.

        One pass for both: each head reads a copy of its own, whose gradient is turned round for
        an adversary and weighted for a kept label.
        """
        batch = self._drawn()
        sent = self._sent(batch)
        copies = sent.detach().repeat(len(batch.codes), 1, 1).requires_grad_()
        self._head_adam.zero_grad(set_to_none=True)
        losses = self.heads.losses(copies, batch.codes)
        torch.autograd.backward(losses.sum())
        pull = torch.einsum("h,hnd->nd", self._weights(losses.detach()), _slope(copies))
        for weight, missed in self._unnamed(batch):
            copy = sent.detach().requires_grad_()
            torch.autograd.backward(missed(copy))
            pull = pull + weight * _slope(copy)
        self._head_adam.step()
        if self.config.nearness_weight:
            # The slope of the mean square, which is that of `F.mse_loss`.
            moved = sent.detach() - batch.z
            pull = pull + self.config.nearness_weight * 2 / moved.numel() * moved
        return sent, pull

    def _unnamed(self, batch: Batch) -> list[tuple[float, Missed]]:
        """What is to stay besides the labels: weights, and what is missed of what is sent."""
        found: list[tuple[float, Missed]] = []
        if self.recovery_weight:
            found.append(
                (self.recovery_weight, lambda sent: self.recovery.missed(sent, batch.residuals))
            )
        if self.config.cluster_weight:
            own = batch.groups, batch.clusters
            found.append(
                (self.config.cluster_weight, lambda sent: self.cluster_reader.missed(sent, *own))
            )
        return found

    def _sent(self, batch: Batch) -> torch.Tensor:
        noise = torch.randn(batch.z.shape, generator=self.random)
        return self.model.sent(batch.z, batch.onehot, noise)

    def _weights(self, losses: torch.Tensor) -> torch.Tensor:
        """How much each head's loss counts for the filter, which descends.

        What an adversary still reads counts against the filter, never below nothing: one that is
        worse than guessing has been misled, not starved, and a fresh one would read what it
        misreads.
        """
        weights = torch.full_like(losses, self.config.utility_weight)
        hidden = len(self.entropies)
        weights[:hidden] = -(losses[:hidden] < self.entropies).float()
        return weights

    @torch.no_grad()
    def _into_budget(self) -> None:
        """Of the linear filter exactly; of a network, estimated on some records."""
        if self.model.shape.kind == "linear":
            shifts = self.model.shift_of(self.combinations, self.combinations)
            weights = self.counts
        else:
            rows = torch.randint(len(self.all.z), (_ESTIMATED_ON,), generator=self.random)
            shifts = self.model.shift_of(self.all.z[rows], self.all.onehot[rows])
            weights = np.ones(len(rows))
        change = Perturbation.of(self.model.noise.numpy(), shifts.numpy(), weights, self.variances)
        self.model.shrink(self.distortion.largest_scale(change, _WHILE_TRAINING))

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
        hidden = self.all.codes[: len(self.entropies)].T
        return perturbation_of(self.model, self.all.z, hidden, self.variances)

    def _drawn(self) -> Batch:
        size = self.config.batch
        return self.all.part(torch.randint(len(self.all.z), (size,), generator=self.random))


def _check_latents(records: Records) -> None:
    if records.is_images or records.features.ndim != 2:
        raise UserError("a filter works on latents [count, d]; encode the records first.")
    if not np.isfinite(records.features).all():
        raise UserError("the latents hold values that are not finite numbers.")


def _entropy(codes: torch.Tensor) -> float:
    shares = torch.bincount(codes).double() / len(codes)
    return float(-(shares * shares.clamp(min=1e-300).log()).sum())


def _combinations(
    records: Records, choice: Choice, onehot: torch.Tensor
) -> tuple[torch.Tensor, Numbers]:
    """The combinations of hidden labels that occur, one-hot, and how often."""
    joint = joint_codes([codes_of(records, name) for name in choice.private], len(records))
    _, first, counts = np.unique(joint, return_index=True, return_counts=True)
    return onehot[torch.from_numpy(first)], counts.astype(np.float64)


def _slope(leaf: torch.Tensor) -> torch.Tensor:
    found = leaf.grad
    if found is None:
        raise ArithmeticError("no gradient reached what is sent")
    return found


def _adam(module: nn.Module, rate: float, momentum: float) -> torch.optim.Adam:
    return torch.optim.Adam(module.parameters(), rate, betas=(momentum, 0.99), fused=True)


def _set_rate(adam: torch.optim.Adam, rate: float) -> None:
    for group in adam.param_groups:
        group["lr"] = rate
