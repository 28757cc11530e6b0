"""A loss that reads what it was not given is seen to, however it comes by it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import nn

from tests.privacy.rig import classify, frozen, mlp, records
from understudy.methods.diffusion.denoiser_training import DenoiserTraining
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.nets.tensors_read import reads_unknown_tensors
from understudy.privacy.door.batch import Batch, make_batch, random_batch, with_draws
from understudy.privacy.dpsgd.loss import BoundLoss, Loss, Models, Values
from understudy.privacy.noise.source import NoiseSource

CPU = torch.device("cpu")
OTHER = torch.ones(())


@frozen
def with_numbers(models: Models, batch: Batch) -> torch.Tensor:
    """Numbers, and tensors of them made on the way."""
    return classify(models, batch, {}) * torch.tensor(2.0) + torch.zeros(len(batch)) + 1


@frozen
def with_a_view(models: Models, batch: Batch) -> torch.Tensor:
    return classify(models, batch, {}) + batch.features[:, 0, 0, 0].mul(2.0)


@frozen
def with_record_replaced(models: Models, batch: Batch) -> torch.Tensor:
    return classify(models, batch, {}) * OTHER


@frozen
def with_a_view_of_another(models: Models, batch: Batch) -> torch.Tensor:
    return classify(models, batch, {}) + OTHER.expand(3)[: len(batch)]


def reads_others(loss: Loss, network: nn.Module, batch: Batch, values: Values) -> bool:
    """As the engine asks before it captures a loss."""
    bound = BoundLoss(loss)
    known = [*batch.tensors, *values.values(), *bound.tensors]
    work = partial(bound.call, [network], batch, values)
    return reads_unknown_tensors(work, known, [network])


@pytest.mark.parametrize(
    ("loss", "others"),
    [
        (classify, False),
        (with_numbers, False),
        (with_a_view, False),
        (with_record_replaced, True),
        (with_a_view_of_another, True),
    ],
)
def test_other_tensors_are_seen(loss: Loss, others: bool) -> None:
    data, network = records(13), mlp()
    batch = make_batch(data, torch.arange(2).numpy(), CPU)
    assert reads_others(loss, network, batch, {}) is others


@dataclass(frozen=True)
class Holding:
    table: torch.Tensor

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        return classify(models, batch, values) * self.table[0] * values["weight"]


def test_its_own_tensors_and_its_values_are_known() -> None:
    batch = make_batch(records(13), torch.arange(2).numpy(), CPU)
    loss = Holding(torch.ones(2))
    assert not reads_others(loss, mlp(), batch, {"weight": torch.tensor(2.0)})


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_denoisers_read_nothing_else(precision: str) -> None:
    config = DiffusionConfig(
        **{"width": 8, "multipliers": (1, 1), "blocks": (1, 1), "attention": (4,), "patch": 1},
        **{"multiplicity": 2, "noise_pairs": True, "flip": True, "level_balance": 1.0},
    )
    data = records(13)
    training = DenoiserTraining(config, config.network(data.shape, 3), 0, CPU)
    rows = random_batch(data, 2, CPU).repeat(2)
    batch = with_draws(rows, training.draws, NoiseSource(), 2)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        assert not reads_others(training.loss, training.network, batch, {})
