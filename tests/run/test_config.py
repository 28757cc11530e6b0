"""What a run may be asked for."""

from __future__ import annotations

from dataclasses import replace
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
    ("written", "read"), [("digits", ("digits",)), ("null", ()), ("[a=digits]", ("a=digits",))]
)
def test_public_data_are_read_as_version_0_1_wrote_them(
    written: str, read: tuple[str, ...], tmp_path: Path
) -> None:
    given = RunConfig("digits", "dp-merf", epsilon=1.0)
    write_config(tmp_path, given)
    path = tmp_path / "config.yaml"
    lines = path.read_text().replace("public: []", f"public: {written}").splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith("weights")))
    assert read_config(tmp_path) == replace(given, public=read)


def test_one_public_input_needs_no_tuple() -> None:
    config = RunConfig("digits", "pdp-diffusion", 1.0, public="mnist", weights=None)  # type: ignore[arg-type]
    assert (config.public, config.weights) == (("mnist",), ())


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
