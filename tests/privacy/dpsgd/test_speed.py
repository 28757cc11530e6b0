"""Speed settings follow declared figures only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from understudy.errors import UserError
from understudy.privacy.dpsgd.speed import Speed


@pytest.mark.parametrize(
    ("speed", "rows"),
    [
        (Speed(micro_batch=12), 4),
        (Speed(micro_batch=1), 1),
        (Speed(), 50),
    ],
)
def test_micro_batches_follow_declared_figures_only(speed: Speed, rows: int) -> None:
    assert speed.records_at_once(width=1000, multiplicity=3, expected=50.0) == rows


@pytest.mark.parametrize(
    ("width", "draws", "rows"),
    [
        (1000, 1, 1024),
        (20_000, 1, 157),
        (10**5, 1, 32),
        (10**6, 4, 8),
        (10**7, 1, 6),
        (10**9, 1, 1),
    ],
)
def test_a_cpu_takes_what_its_caches_hold_and_some_rows_if_they_fit(
    width: int, draws: int, rows: int
) -> None:
    assert Speed().records_at_once(width, draws, expected=1e6) == rows
    assert Speed().records_at_once(width, draws, expected=0.2) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"backend": "jax"}, {"precision": "float8"}, {"micro_batch": -1}, {"block_steps": 0}],
)
def test_speed_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Speed(**wrong)


@pytest.mark.parametrize(
    ("precision", "width", "draws", "records"),
    [("bfloat16", 10**6, 32, 44), ("bfloat16", 2**21, 1, 704), ("float32", 2**21, 1, 352)],
)
def test_a_gpu_takes_rows_to_fill_it_and_gradients_that_fit(
    precision: str, width: int, draws: int, records: int
) -> None:
    speed = Speed(precision=precision)
    assert speed.records_at_once(width, draws, 1e6, fused=True) == records
    assert 7 <= speed.records_at_once(width, draws, 7.0, fused=True) <= 15
    assert speed.records_at_once(2**40, draws, 7.0, fused=True) == 1


@pytest.mark.parametrize(("draws", "expected"), [(4, 2048), (8, 1024), (4, 4096), (1, 512)])
def test_usual_draws_fill_whole_micro_batches(draws: int, expected: int) -> None:
    """Of Poisson draws, as they come out: hardly any size would have less to compute."""
    most = 1408 // draws
    chosen = Speed(precision="bfloat16").records_at_once(10**5, draws, expected, fused=True)
    drawn = np.random.default_rng(0).binomial(60_000, expected / 60_000, 4000)
    work = {rows: rows * np.ceil(drawn / rows).mean() for rows in range(1, most + 1)}
    assert work[chosen] <= 1.02 * min(work[rows] for rows in work if rows > most * 2 // 3)
    assert work[chosen] <= 1.001 * work[most]
