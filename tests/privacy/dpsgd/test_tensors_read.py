"""A loss that reads what it was not given is seen to, however it comes by it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.privacy.rig import classify, mlp, records
from understudy.methods.diffusion.denoiser_training import DenoiserTraining
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.privacy.door.batch import make_batch, random_batch, with_draws
from understudy.privacy.dpsgd.backends.base import Loss
from understudy.privacy.dpsgd.tensors_read import reads_others
from understudy.privacy.noise.source import NoiseSource

CPU = torch.device("cpu")
OTHER = torch.ones(())


def with_numbers(models: Any, batch: Any) -> torch.Tensor:
    """Numbers, and tensors of them made on the way."""
    return classify(models, batch) * torch.tensor(2.0) + torch.zeros(len(batch)) + 1


def with_a_view(models: Any, batch: Any) -> torch.Tensor:
    return classify(models, batch) + batch.features[:, 0, 0, 0].mul(2.0)


def with_another(models: Any, batch: Any) -> torch.Tensor:
    return classify(models, batch) * OTHER


def with_a_view_of_another(models: Any, batch: Any) -> torch.Tensor:
    return classify(models, batch) + OTHER.expand(3)[: len(batch)]


@pytest.mark.parametrize(
    ("loss", "others"),
    [
        (classify, False),
        (with_numbers, False),
        (with_a_view, False),
        (with_another, True),
        (with_a_view_of_another, True),
    ],
)
def test_other_tensors_are_seen(loss: Loss, others: bool) -> None:
    data, network = records(13), mlp()
    batch = make_batch(data, torch.arange(2).numpy(), CPU)
    known = list(network.parameters())
    assert reads_others(loss, [network], batch, known) is others
    assert reads_others(loss, [network], batch, known[1:]), "a parameter that is not held"


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
    known = [*training.network.parameters(), *training.network.buffers()]
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        assert not reads_others(training.loss, [training.network], batch, known)
