"""Speed settings follow declared figures only."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.errors import UserError
from understudy.privacy.speed import Speed


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
    "wrong",
    [{"backend": "jax"}, {"precision": "float8"}, {"micro_batch": -1}, {"block_steps": 0}],
)
def test_speed_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Speed(**wrong)
