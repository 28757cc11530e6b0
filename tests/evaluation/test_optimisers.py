"""Schedules and the running average, against values worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from understudy.evaluation.optimisers import make_optimiser, running_average
from understudy.evaluation.protocol import Protocol


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"schedule": "constant"}, [1.0, 1.0, 1.0, 1.0]),
        (
            {"schedule": "step", "step_epochs": 2, "step_factor": 0.1},
            [1.0, 1.0, 0.1, 0.1],
        ),
        ({"schedule": "cosine"}, [1.0, 0.853553, 0.5, 0.146447]),
    ],
)
def test_the_rate_at_the_start_of_each_epoch(
    quick: Protocol, settings: dict[str, Any], expected: list[float]
) -> None:
    training = replace(quick.training, learning_rate=1.0, **settings)
    optimiser, schedule = make_optimiser(nn.Linear(2, 2), training, per_epoch=3, steps=12)
    rates = []
    for _ in range(4):
        rates.append(schedule.get_last_lr()[0])
        for _ in range(3):
            optimiser.step()
            schedule.step()
    assert rates == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("optimiser", "kind"),
    [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)],
)
def test_optimisers_by_name(quick: Protocol, optimiser: str, kind: type) -> None:
    training = replace(quick.training, optimiser=optimiser, momentum=0.0)
    made, _ = make_optimiser(nn.Linear(2, 2), training, 1, 1)
    assert type(made) is kind
    assert made.defaults.get("momentum", 0.0) == 0.0


def test_weights_are_averaged_and_statistics_are_not() -> None:
    """Weights 1, 2, 3 after three steps; the first is copied, then 2/11 and 3/12 are kept."""
    network = nn.BatchNorm1d(1)
    average = running_average(network, 0.9999)
    assert average is not None
    for value in (1.0, 2.0, 3.0):
        network.weight.data.fill_(value)
        network.running_mean.fill_(10 * value)
        average.update_parameters(network)
    second = 1 * 2 / 11 + 2 * 9 / 11
    assert float(average.module.weight.detach()) == pytest.approx(second * 3 / 12 + 3 * 9 / 12)
    assert float(average.module.running_mean) == 30
    assert running_average(network, None) is None
