"""What one shard's training leaves behind reaches no other shard's model."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.rig import handle, kinds, vectors
from understudy.errors import PrivacyError, RunFailed, UserError
from understudy.privacy.door.batch import TRIAL_ROWS, Batch
from understudy.privacy.door.ensemble import Ensemble, Train
from understudy.privacy.dpsgd.loss import Values
from understudy.privacy.plan.mechanisms import (
    EnsembleGradients,
    EnsembleVotes,
    OneOfShardsGradients,
)

SHARDS = 3
VOTES = EnsembleVotes("votes", shards=SHARDS, queries=20, sigma=3.0)
TRIED = (1, TRIAL_ROWS)


class OnShared(nn.Module):
    """A head of its own on a frozen network that all shards share."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(12, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.body(inputs))
        return out


def frozen() -> nn.Module:
    return nn.BatchNorm1d(12).requires_grad_(False)


def ensemble_of(folder: Path, train: Train) -> Ensemble:
    return handle(folder, vectors(np.random.default_rng(0).normal(size=(40, 12))), VOTES).ensemble(
        SHARDS, train
    )


def looked_at(body: nn.Module, batch: Batch, training: bool) -> None:
    body.train(training)
    with torch.no_grad():
        body(torch.cat([batch.features, batch.features + 1]))


def nothing(model: nn.Module, batch: Batch, values: Values) -> None:
    del model, batch, values


def test_a_frozen_network_may_be_shared(tmp_path: Path) -> None:
    body = frozen()

    def train(batch: Batch) -> nn.Module:
        looked_at(body, batch, training=False)
        return OnShared(body)

    ensemble_of(tmp_path, train).advance(nothing)
    assert kinds(tmp_path) == ["plan"]


def test_statistics_that_shards_share_are_refused_beforehand(tmp_path: Path) -> None:
    body = frozen()

    def train(batch: Batch) -> nn.Module:
        looked_at(body, batch, training=True)
        return OnShared(body)

    with pytest.raises(PrivacyError, match="moves what another's holds"):
        ensemble_of(tmp_path, train)
    assert kinds(tmp_path) == ["plan"]


def test_a_train_that_hands_on_what_it_learnt_is_refused_beforehand(tmp_path: Path) -> None:
    """As a mean over all records, or a network that goes on learning from shard to shard."""
    sums = torch.zeros(12)

    def train(batch: Batch) -> nn.Module:
        sums.add_(batch.features.sum(dim=0) + 1)
        made = nn.Linear(12, 3)
        with torch.no_grad():
            made.weight.copy_(sums.expand(3, 12))
        return made

    with pytest.raises(UserError, match="train gives another model for the same records"):
        ensemble_of(tmp_path, train)
    assert kinds(tmp_path) == ["plan"]


def test_an_update_that_hands_on_what_it_learnt_is_refused_beforehand(tmp_path: Path) -> None:
    common = nn.Linear(12, 3)

    def update(model: nn.Module, batch: Batch, values: Values) -> None:
        del values
        with torch.no_grad():
            common.bias += batch.features.mean() + 1
            for own, other in zip(model.parameters(), common.parameters(), strict=True):
                own.copy_(other)

    ensemble = ensemble_of(tmp_path, lambda _: nn.Linear(12, 3))
    with pytest.raises(UserError, match="update gives another model for the same records"):
        ensemble.advance(update)
    ensemble.advance(nothing)
    assert kinds(tmp_path) == ["plan"]


@pytest.mark.parametrize("how", ["sums", "one of the shards"])
def test_a_loss_that_hands_on_what_it_saw_is_refused_beforehand(tmp_path: Path, how: str) -> None:
    """As a running mean of scores, by which every later gradient follows from every shard."""
    scores = [0.0]

    def loss(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        found = model(inputs).square().mean()
        scores[0] += float(found.detach()) + 1
        return found * scores[0]

    data = vectors(np.random.default_rng(0).normal(size=(40, 12)))
    gradients = EnsembleGradients("sums", shards=SHARDS, queries=5, clip=1.0, sigma=3.0)
    one = OneOfShardsGradients("one", shards=SHARDS, steps=5, clip=1.0, sigma=3.0)
    ensemble = handle(tmp_path, data, gradients, one).ensemble(SHARDS, lambda _: nn.Linear(12, 3))
    session = ensemble.gradients_of_one(loss)
    ask = partial(ensemble.noisy_gradients, loss=loss) if how == "sums" else session.step
    with pytest.raises(UserError, match="the loss gives another gradient for the same records"):
        ask(torch.ones(2, 12))
    assert kinds(tmp_path) == ["plan"]


def test_statistics_that_a_round_moves_end_the_run(tmp_path: Path) -> None:
    """Of made-up shards alone it did not: a copy of their model was asked."""
    body = frozen()

    def update(model: nn.Module, batch: Batch, values: Values) -> None:
        del values
        assert isinstance(model, OnShared)
        looked_at(model.body, batch, training=len(batch) not in TRIED)

    ensemble = ensemble_of(tmp_path, lambda _: OnShared(body))
    with pytest.raises(RunFailed, match="moves what another's holds"):
        ensemble.advance(update)
    assert kinds(tmp_path)[-1] == "fail"
