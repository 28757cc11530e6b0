"""Ensembles of models trained on disjoint shards (PATE), once or in rounds; only noisy answers
leave them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from understudy.data.records import Records
from understudy.data.splits import shard_of
from understudy.errors import PrivacyError, UserError
from understudy.nets.per_example.twins import twin_of
from understudy.nets.rng_isolation import isolated_rng
from understudy.privacy.door.apart import (
    Tensors,
    Unmoved,
    refuse_shared_memory,
    require_same_again,
    tensors_of,
    values_of,
)
from understudy.privacy.door.batch import TRIAL_ROWS, Batch, extreme_batch, make_batch
from understudy.privacy.door.interrupts import all_at_once
from understudy.privacy.door.one_of_shards import InputLoss, OneOfShardsSession
from understudy.privacy.door.planned import find_planned
from understudy.privacy.door.sealed_models import (
    form_of_model,
    models_from_state,
    models_to_state,
)
from understudy.privacy.dpsgd.loss import Values, values_on
from understudy.privacy.ledger.state import State
from understudy.privacy.plan.mechanisms import (
    EnsembleGradients,
    EnsembleVotes,
    OneOfShardsGradients,
)
from understudy.privacy.sums.clipping import ClippedSum

if TYPE_CHECKING:
    from understudy.privacy.door.door import Door

_UNTRAINED, _UNCHANGED = "return an untrained model", "leave the model as it is"

Train = Callable[[Batch], nn.Module]
"""Trains a model on all records of one shard; the model never leaves its ensemble."""

Update = Callable[[nn.Module, Batch, Values], None]
"""Trains one shard's model further, in place, on all records of its shard; the values are copies,
and of released outputs or constants alone. What it needs to remember (an optimiser's moments, say)
is a buffer of the model: nothing else is kept for a restart."""


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

    Guarantee: a shard's model is a function of its shard, of fresh randomness, and of what
    `train` and `update` were given, which is the same for every shard; which shards answered is
    no input of it. Models leave by noisy votes and gradients, and into the door's part of a
    checkpoint, which the owner alone can read.
    """

    def __init__(
        self,
        door: Door,
        part: str,
        shards: list[Records],
        train: Train,
        name: str = "ensemble",
    ) -> None:
        """name: by which a checkpoint knows its models, if it is trained in rounds."""
        self._door, self._part, self._count = door, part, len(shards)
        self._schema, self._shards = shards[0].schema, shards
        self._of_shard: list[nn.Module | None] = [None] * len(shards)
        self._rounds, self._in_a_round = 0, False
        self._made_up = self._try(train, shards[0])
        if door.resume_point.seal(f"{part}/{name}", self):
            return
        with door.breaking(), all_at_once("a shard", "plan more shards"):
            for number, shard in enumerate(shards):
                if len(shard):
                    batch = make_batch(shard, np.arange(len(shard)), door.device)
                    with isolated_rng(door.noise.callback_stream_seed()):
                        self._of_shard[number] = train(batch).eval()
            refuse_shared_memory(self._models)

    @property
    def _models(self) -> list[nn.Module]:
        return [model for model in self._of_shard if model is not None]

    @property
    def rounds(self) -> int:
        """How many rounds `advance` has done; after a restart, of those that were kept."""
        return self._rounds

    def advance(self, update: Update, values: Mapping[str, Any] | None = None) -> None:
        """One round: every shard's model learns further from its own shard.

        Guarantee: no privacy cost and no event, as for `train`. All shards take part in every
        round, whichever answered before; each gets the same `values`, as copies of its own, so
        that no shard's records reach another's model by them. A round that is cut short is in
        no checkpoint. After a restart the models of the restored checkpoint are back, and rounds
        done after it are done again.
        """
        door = self._door
        given = values_on(door.device, values)
        self._try_update(update, given)
        unmoved = Unmoved.shared(self._models)
        self._in_a_round = True
        with door.breaking(), all_at_once("a shard", "plan more shards"):
            for shard, model in zip(self._shards, self._of_shard, strict=True):
                if model is not None:
                    batch = make_batch(shard, np.arange(len(shard)), door.device)
                    self._update(update, model, batch, given, door.noise.callback_stream_seed())
            unmoved.require()
            refuse_shared_memory(self._models)
            self._require_one_form()
        self._rounds += 1
        self._in_a_round = False

    def sealed_state(self) -> State | None:
        """The models, for the door alone. None before the first round: `train` makes them anew."""
        if self._in_a_round:
            raise PrivacyError("a round was cut short; its models are in no checkpoint.")
        about = {**self._identity, "rounds": self._rounds}
        return models_to_state(self._of_shard, about) if self._rounds else None

    def unseal(self, state: State) -> None:
        self._of_shard = models_from_state(state, self._made_up, self._identity)
        self._rounds = int(state.values["rounds"])

    @property
    def _identity(self) -> dict[str, object]:
        return {"part": self._part, "shards": self._count}

    def _try(self, train: Train, like: Records) -> nn.Module:
        """Refuse a `train` that fails on a shard of one extreme record, or of a few, that goes on
        with the same model, or that keeps something; what it made of a few."""
        seed = self._door.noise.callback_stream_seed()

        made: dict[int, nn.Module] = {}

        def trained(rows: int) -> Tensors:
            batch = extreme_batch(like, rows, self._door.device)
            with isolated_rng(seed):
                try:
                    made[rows] = train(batch).eval()
                except Exception as error:
                    raise _could_fail("train", rows, error, _UNTRAINED) from error
            return values_of(made[rows])

        before = trained(1)
        one = made[1]
        unmoved = Unmoved(tensors_of(one))
        trained(TRIAL_ROWS)
        few = made[TRIAL_ROWS]
        refuse_shared_memory([one, few])
        unmoved.require()
        require_same_again("train gives another model", before, trained, TRIAL_ROWS)
        self._one_form = form_of_model(one) == form_of_model(few)
        self._made_of_one = one
        return few

    def _try_update(self, update: Update, values: Values) -> None:
        """Refuse an `update` that fails on a made-up shard, and models that could not be kept."""
        if not self._one_form:
            raise UserError(
                "train makes models of different shapes for different shards, which no checkpoint "
                "can hold; an ensemble in rounds needs models of one form."
            )
        seed = self._door.noise.callback_stream_seed()

        def updated(rows: int) -> Tensors:
            model = copy.deepcopy(self._made_up)
            batch = extreme_batch(self._shards[0], rows, self._door.device)
            try:
                self._update(update, model, batch, values, seed)
            except Exception as error:
                raise _could_fail("update", rows, error, _UNCHANGED) from error
            if form_of_model(model) != form_of_model(self._made_up):
                raise UserError("update must leave the names and shapes of a model as they are.")
            return values_of(model)

        before = updated(1)
        updated(TRIAL_ROWS)
        require_same_again("update gives another model", before, updated, TRIAL_ROWS)

    def _update(
        self, update: Update, model: nn.Module, batch: Batch, values: Values, seed: int
    ) -> None:
        copies = {name: value.clone() for name, value in values.items()}
        with isolated_rng(seed):
            update(model, batch, copies)
        model.eval()

    def _require_one_form(self) -> None:
        form = form_of_model(self._made_up)
        if any(form_of_model(model) != form for model in self._models):
            raise PrivacyError("the models of an ensemble in rounds must have one form.")

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
        planned = find_planned(self._door, self._part, EnsembleVotes, shards=self._count)
        self._answers(self._made_up, inputs, width)
        deviation = planned.sigma * math.sqrt(2.0)
        return self._door.release(
            planned, len(inputs), lambda: self._votes(inputs, width), deviation
        )

    def noisy_gradients(self, inputs: torch.Tensor, loss: InputLoss) -> torch.Tensor:
        """The noisy sum of the models' gradients with respect to a whole batch of inputs.

        Guarantee: each model's gradient tensor is clipped as one vector to L2 norm `clip`;
        adding or removing one unit *replaces* one of them: sensitivity `2 * clip`. Noise of
        standard deviation `sigma * 2 * clip`. Event: one Gaussian with multiplier `sigma`
        per call. A loss that fails with a model of made-up records does so before it is charged.
        """
        planned = find_planned(self._door, self._part, EnsembleGradients, shards=self._count)
        self.try_gradient(inputs, loss)

        def exact() -> torch.Tensor:
            total = ClippedSum(planned.clip, inputs.numel(), inputs.device, single=True)
            for number, model in enumerate(self._models):
                total.add(self._gradient(model, inputs, loss), np.array([number]))
            return total.finish().reshape(inputs.shape)

        return self._door.release(planned, 1, exact, planned.sigma * 2 * planned.clip)

    def gradients_of_one(self, loss: InputLoss, name: str | None = None) -> OneOfShardsSession:
        """A session of noisy gradients, each of one shard that the door draws in secret; see
        `OneOfShardsSession.step` for the guarantee."""
        planned = find_planned(
            self._door, self._part, OneOfShardsGradients, name, shards=self._count
        )
        return OneOfShardsSession(self._door, planned, self, loss)

    def try_gradient(self, inputs: torch.Tensor, loss: InputLoss) -> None:
        """Let a loss that fails do so with models of made-up records; refuse one that hands on
        what it saw of one shard's model to the next one's gradient."""
        seed = self._door.noise.callback_stream_seed()

        def asked(rows: int) -> Tensors:
            model = self._made_of_one if rows == 1 else self._made_up
            with isolated_rng(seed):
                return [_input_gradient(twin_of(model, shares=False), inputs, loss)]

        asked(TRIAL_ROWS)
        require_same_again("the loss gives another gradient", asked(1), asked, TRIAL_ROWS)

    def gradient_of_shard(self, shard: int, inputs: torch.Tensor, loss: InputLoss) -> torch.Tensor:
        """One shard's gradient, before clip and noise: for sessions behind the door alone.

        The loss gets a copy of the model, so that no model depends on whether it was drawn. An
        empty shard answers zero, and takes as long as another.
        """
        model = self._of_shard[shard]
        asked = self._made_up if model is None else model
        found = self._gradient_of_copy(asked, inputs, loss)
        return torch.zeros_like(found) if model is None else found

    def _gradient_of_copy(
        self, model: nn.Module, inputs: torch.Tensor, loss: InputLoss
    ) -> torch.Tensor:
        return self._gradient(twin_of(model, shares=False), inputs, loss)

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
        loss: InputLoss,
    ) -> torch.Tensor:
        with isolated_rng(self._door.noise.callback_stream_seed()):
            return _input_gradient(model, inputs, loss)


def _could_fail(what: str, rows: int, error: Exception, instead: str) -> UserError:
    return UserError(
        f"{what} fails on a shard of {rows} extreme records, so it could fail on a "
        f"private one: {type(error).__name__}: {error}; let it {instead} instead."
    )


def _input_gradient(
    model: nn.Module,
    inputs: torch.Tensor,
    loss: InputLoss,
) -> torch.Tensor:
    leaf = inputs.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(model, leaf), leaf)
    return gradient.reshape(1, -1)
