"""Ensembles of models trained on disjoint shards (PATE); only noisy answers leave them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from understudy.data.records import Records
from understudy.data.splits import shard_of
from understudy.errors import PrivacyError, UserError
from understudy.nets.rng_isolation import isolated_rng
from understudy.privacy.door.batch import TRIAL_ROWS, Batch, extreme_batch, make_batch
from understudy.privacy.plan.mechanisms import EnsembleGradients, EnsembleVotes
from understudy.privacy.sums.clipping import ClippedSum

if TYPE_CHECKING:
    from understudy.privacy.door.door import Door

Train = Callable[[Batch], nn.Module]
"""Trains a model on all records of one shard; the model never leaves its ensemble."""


def make_shards(records: Records, origin: Records, shards: int, key: bytes) -> list[Records]:
    """Disjoint shards of `records`; a unit's shard depends on a keyed hash of the unit alone.

    The hash is that of `origin`, the records before any `map`: how a network's output for a record
    is rounded depends on its batch, and would move it to another shard.
    """
    if not key:
        raise PrivacyError("shards need the dataset's split key; open the run with its book.")
    numbers = shard_of(origin, shards, key)
    return [records.select(np.flatnonzero(numbers == shard)) for shard in range(shards)]


class Ensemble:
    """Models that no method can read, one per shard that is not empty.

    What a model must be able to do is tried with one that learnt made-up records: whether a shard
    has records, and so a model that could fail, is private.
    """

    def __init__(self, door: Door, part: str, shards: list[Records], train: Train) -> None:
        self._door, self._part, self._count = door, part, len(shards)
        self._schema = shards[0].schema
        self._models: list[nn.Module] = []
        self._made_up = self._try(train, shards[0])
        with door.breaking():
            for shard in shards:
                if len(shard):
                    batch = make_batch(shard, np.arange(len(shard)), door.device)
                    with isolated_rng(door.noise.callback_stream_seed()):
                        self._models.append(train(batch).eval())
            _refuse_shared_memory(self._models)

    def _try(self, train: Train, like: Records) -> nn.Module:
        """Refuse a `train` that fails on a shard of one extreme record, or of a few, or that goes
        on with the same model; what it made of the last."""
        models = []
        for rows in (1, TRIAL_ROWS):
            batch = extreme_batch(like, rows, self._door.device)
            with isolated_rng(self._door.noise.callback_stream_seed()):
                try:
                    models.append(train(batch).eval())
                except Exception as error:
                    raise UserError(
                        f"train fails on a shard of {rows} extreme records, so it could fail on a "
                        f"private one: {type(error).__name__}: {error}; let it return an untrained "
                        "model instead."
                    ) from error
        _refuse_shared_memory(models)
        return models[-1]

    def noisy_votes(self, inputs: torch.Tensor, classes: int | None = None) -> torch.Tensor:
        """Noisy vote counts [inputs, classes] of the models on public or generated inputs.

        Guarantee: each input is one query. Adding or removing one unit changes one model,
        hence one vote per query: L2 sensitivity sqrt(2). Noise of standard deviation
        `sigma * sqrt(2)`. Event: one Gaussian with multiplier `sigma` per input.

        `classes` is the declared width of every model's answer, by default the number of
        the label's classes; without any model the counts are noise. A question that a model of
        made-up records cannot answer is refused before it is charged.
        """
        width = len(self._schema.classes) if classes is None else classes
        planned = self._planned(EnsembleVotes)
        self._answers(self._made_up, inputs, width)
        deviation = planned.sigma * math.sqrt(2.0)
        return self._door.release(
            planned, len(inputs), lambda: self._votes(inputs, width), deviation
        )

    def noisy_gradients(
        self, inputs: torch.Tensor, loss: Callable[[nn.Module, torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """The noisy sum of the models' gradients with respect to a whole batch of inputs.

        Guarantee: each model's gradient tensor is clipped as one vector to L2 norm `clip`;
        adding or removing one unit *replaces* one of them: sensitivity `2 * clip`. Noise of
        standard deviation `sigma * 2 * clip`. Event: one Gaussian with multiplier `sigma`
        per call. A loss that fails with a model of made-up records does so before it is charged.
        """
        planned = self._planned(EnsembleGradients)
        self._gradient(self._made_up, inputs, loss)

        def exact() -> torch.Tensor:
            total = ClippedSum(planned.clip, inputs.numel(), inputs.device, single=True)
            for number, model in enumerate(self._models):
                total.add(self._gradient(model, inputs, loss), np.array([number]))
            return total.finish().reshape(inputs.shape)

        return self._door.release(planned, 1, exact, planned.sigma * 2 * planned.clip)

    def _votes(self, inputs: torch.Tensor, classes: int) -> torch.Tensor:
        counts = torch.zeros(len(inputs), classes, dtype=torch.float64, device=inputs.device)
        for model in self._models:
            answers = self._answers(model, inputs, classes)
            counts += nn.functional.one_hot(answers.argmax(dim=1), classes)
        return counts

    def _answers(self, model: nn.Module, inputs: torch.Tensor, classes: int) -> torch.Tensor:
        with isolated_rng(self._door.noise.callback_stream_seed()), torch.no_grad():
            answers: torch.Tensor = model(inputs)
        # Another width could be broadcast, and one model would have many votes.
        if answers.shape != (len(inputs), classes):
            raise PrivacyError(
                f"every model must answer {[len(inputs), classes]}, not {list(answers.shape)}."
            )
        return answers

    def _gradient(
        self,
        model: nn.Module,
        inputs: torch.Tensor,
        loss: Callable[[nn.Module, torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        with isolated_rng(self._door.noise.callback_stream_seed()):
            return _input_gradient(model, inputs, loss)

    def _planned(self, kind: type[EnsembleVotes] | type[EnsembleGradients]):  # type: ignore[no-untyped-def]
        for mechanism in self._door.plan.mechanisms:
            if (
                isinstance(mechanism, kind)
                and mechanism.part == self._part
                and mechanism.shards == self._count
                and self._door.wants(mechanism)
            ):
                return mechanism
        raise PrivacyError(f"the plan holds no unspent {kind.kind} over {self._count} shards.")


def _refuse_shared_memory(models: list[nn.Module]) -> None:
    """Models that share what training moves were not trained on one shard each."""
    seen: set[int] = set()
    for model in models:
        own = {p.untyped_storage().data_ptr() for p in model.parameters() if p.requires_grad}
        if own & seen:
            raise PrivacyError("train must make a new model for every shard, sharing nothing.")
        seen |= own


def _input_gradient(
    model: nn.Module,
    inputs: torch.Tensor,
    loss: Callable[[nn.Module, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    leaf = inputs.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(model, leaf), leaf)
    return gradient.reshape(1, -1)
