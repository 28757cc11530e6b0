"""Who joins the steps of DP-SGD, read off its sums: each unit by itself, at the planned rate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.rig import frozen, handle, vectors
from understudy.audit.sampling_tests import Joined, joined_by_poisson
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.loss import Models
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.state import State
from understudy.privacy.plan.mechanisms import DPSGD

UNITS, STEPS, RATE = 24, 400, 0.25
QUIET = 1e-3


@frozen
def own_coordinate(models: Models, batch: Batch) -> torch.Tensor:
    """A gradient that says which unit it is of."""
    return models[0](batch.features).squeeze(1)


def who_joined(folder: Path) -> Joined:
    """[steps, units], from a session with next to no noise; twice as many are declared."""
    planned = DPSGD("sgd", steps=STEPS, rate=RATE, clip=1.0, sigma=QUIET)
    private = handle(folder, vectors(np.eye(UNITS)), planned, count=2 * UNITS)
    model = nn.Linear(UNITS, 1, bias=False)
    speed = Speed(backend="expanded", block_steps=STEPS)
    session = private.dp_sgd(private._door.plan, [model], own_coordinate, speed=speed)
    rows = []
    for _ in range(STEPS):
        session.step()
        private._door.checkpoint(State)
        assert model.weight.grad is not None
        rows.append(model.weight.grad.reshape(-1) * session.expected_batch > 0.5)
    return torch.stack(rows).numpy()


def test_units_join_steps_independently_and_at_the_planned_rate(tmp_path: Path) -> None:
    assert joined_by_poisson(who_joined(tmp_path), RATE), "not Poisson sampling"


def _independent(rate: float = RATE) -> Joined:
    return np.random.default_rng(1).random((STEPS, UNITS)) < rate


def fixed_size() -> Joined:
    rng = np.random.default_rng(2)
    return np.stack([rng.permutation(UNITS) < RATE * UNITS for _ in range(STEPS)])


def truncated() -> Joined:
    joined = _independent()
    most = round(RATE * UNITS) + 2
    joined[np.cumsum(joined, axis=1) > most] = False
    return joined


def in_pairs() -> Joined:
    return np.repeat(_independent()[:, ::2], 2, axis=1)


def epochs() -> Joined:
    rng, turns = np.random.default_rng(3), round(1 / RATE)
    orders = [rng.integers(0, turns, UNITS) for _ in range(STEPS // turns)]
    return np.stack([order == turn for order in orders for turn in range(turns)])


def more_often() -> Joined:
    return _independent(RATE * 1.2)


def test_independent_units_pass() -> None:
    assert joined_by_poisson(_independent(), RATE)


@pytest.mark.parametrize("broken", [fixed_size, truncated, in_pairs, epochs, more_often])
def test_other_sampling_is_rejected(broken: Callable[[], Joined]) -> None:
    assert not joined_by_poisson(broken(), RATE)
