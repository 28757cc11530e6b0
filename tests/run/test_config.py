"""What a run may be asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from understudy.errors import UserError
from understudy.run.config import RunConfig, read_config, write_config


def test_a_config_comes_back_from_its_file(tmp_path: Path) -> None:
    config = RunConfig("digits", "dp-merf", epsilon=1.0, seed=3, noise="exact", changes=("a=1",))
    write_config(tmp_path, config)
    assert read_config(tmp_path) == config


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"source": " "}, "the data has no name"),
        ({"epsilon": float("inf")}, "epsilon must be finite"),
        ({"seed": -1}, "--seed must be 0 or more, not -1"),
        ({"count": 0}, "--count must lie between 1 and 1,000,000,000,000"),
        ({"count": 10**400}, "--count must lie between 1 and 1,000,000,000,000"),
        ({"holdout": 1.0}, "--holdout must lie between 0 and 1"),
        ({"noise": "pink"}, "--noise must be exact or float, not 'pink'"),
        ({"samples": 0}, "--samples must lie between 1 and"),
        ({"limit": 1}, "--limit must be at least 2"),
        ({"unit": "digit", "label": "digit"}, "they must differ"),
    ],
)
def test_what_no_run_can_be_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        RunConfig(**{"source": "digits", "method": "dp-merf", "epsilon": 1.0, **wrong})
