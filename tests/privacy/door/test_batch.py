"""The draws that rows get: whose they are, and which rows share them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from understudy.privacy.door.batch import Batch, with_draws
from understudy.privacy.noise.source import NoiseSource

RECORDS = 5
DRAWS = {"noise": (2,), "noise_mirrored": (2,), "uniform_level_paired": (), "level_paired": ()}


def drawn(times: int) -> dict[str, np.ndarray]:
    """Draws by name, [records, times, ...], for a batch that holds each record `times` times."""
    batch = Batch(torch.zeros(RECORDS, 1), {}).repeat(times)
    filled = with_draws(batch, DRAWS, NoiseSource(), times).draws
    return {name: values.unflatten(0, (RECORDS, times)).numpy() for name, values in filled.items()}


@pytest.mark.parametrize("times", [1, 2, 3, 4, 5])
def test_pairs_are_of_one_record(times: int) -> None:
    draws = drawn(times)
    for name in ("noise_mirrored", "uniform_level_paired", "level_paired"):
        sizes = np.abs(draws[name]).reshape(RECORDS, times, -1)[:, :, 0]
        own = [set(row.tolist()) for row in sizes]
        assert len(set.union(*own)) == sum(map(len, own)), "records share a draw"
        assert [len(row) for row in own] == [(times + 1) // 2] * RECORDS


@pytest.mark.parametrize("times", [2, 3, 4])
def test_the_second_of_a_pair_has_the_same_value_or_its_negative(times: int) -> None:
    draws = drawn(times)
    for first in range(0, times - 1, 2):
        ours, theirs = (
            {name: values[:, row] for name, values in draws.items()} for row in (first, first + 1)
        )
        assert (ours["noise_mirrored"] == -theirs["noise_mirrored"]).all()
        assert (ours["level_paired"] == theirs["level_paired"]).all()
        assert (ours["uniform_level_paired"] == theirs["uniform_level_paired"]).all()
        assert (ours["noise"] != theirs["noise"]).all()


def test_uniform_draws_stay_uniform_and_others_normal() -> None:
    batch = Batch(torch.zeros(20_000, 1), {})
    draws = with_draws(batch, DRAWS, NoiseSource(), 4).draws
    uniform, normal = draws["uniform_level_paired"], draws["noise_mirrored"]
    assert 0 <= float(uniform.min()) < 0.01 < 0.99 < float(uniform.max()) < 1
    assert float(uniform.mean()) == pytest.approx(0.5, abs=0.02)
    assert float(normal.std()) == pytest.approx(1.0, abs=0.02)
    assert float(normal.mean()) == pytest.approx(0.0, abs=1e-6)
