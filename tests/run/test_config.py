"""What a run may be asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from understudy.errors import UserError
from understudy.run.config import RECOMMENDED, RunConfig, read_config, write_config


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


def test_what_was_decided_comes_back_too(tmp_path: Path) -> None:
    given = RunConfig("digits", time=90.0, device_kind="h200", epsilon=1.0)
    assert not given.is_settled
    settled = replace(given, method="dp-merf", fitted=("a=1", "b=2,3"), fitted_on="a test")
    assert settled.is_settled
    write_config(tmp_path, settled)
    assert read_config(tmp_path) == settled


def test_nothing_is_decided_of_what_is_recommended() -> None:
    given = RunConfig("digits", epsilon=1.0)
    for more in ({"time": None}, {"preset": "default"}, {"fitted": ("a=1",)}):
        assert not replace(given, **more).is_settled  # type: ignore[arg-type]
        assert replace(given, method="dp-merf", **more).is_settled  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("began", "asked", "differing"),
    [
        ({"fitted": ("a=1",), "fitted_on": "x"}, {}, []),
        ({"fitted": ("a=1",), "fitted_on": "x"}, {"method": RECOMMENDED}, []),
        ({"fitted": ("a=1",), "fitted_on": "x"}, {"time": 60.0}, ["--time"]),
        ({"fitted": ("a=1",), "fitted_on": "x"}, {"time": None}, []),  # torchrun gives none
        ({"ranked_on": "x"}, {"method": RECOMMENDED}, []),
        ({"fitted": ("a=1",), "fitted_on": "x"}, {"device_kind": "cpu"}, ["--device-kind"]),
        ({"fitted": ("a=1",), "fitted_on": "x"}, {"method": "dpdm"}, ["--method"]),
        ({"time": None}, {}, []),  # a preset that stayed within the time, or version 0.1
        ({"time": None}, {"preset": "default"}, ["--preset"]),
        ({"time": None}, {"changes": ("a=1",)}, ["--set"]),
    ],
)
def test_what_was_left_open_is_as_it_was_decided(
    began: dict[str, Any], asked: dict[str, Any], differing: list[str]
) -> None:
    usual = RunConfig("digits", "dp-merf", epsilon=1.0)
    first, again = replace(usual, **began), replace(usual, **asked)
    assert first.differing(again.decided_as(first)) == differing


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
        ({"time": 0.5}, "--time must be a second or more, and finite, not 0.5 s"),
        ({"time": float("nan")}, "--time must be a second or more"),
        ({"time": float("inf")}, "--time must be a second or more"),
        ({"device_kind": "h100"}, r"--device-kind 'h100' has no rates; did you mean h200\?"),
        ({"unit": "digit", "label": "digit"}, "they must differ"),
    ],
)
def test_what_no_run_can_be_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        RunConfig(**{"source": "digits", "method": "dp-merf", "epsilon": 1.0, **wrong})
