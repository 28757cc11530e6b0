"""Runs are told apart by the presets as they are now."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from understudy.bench.tables.preset_differences import departures
from understudy.methods.config import config_to_json, resolve_config
from understudy.methods.registry import get_method, method_names

PRESET = config_to_json(resolve_config(get_method("dpdm"), "digits", 2.0).config)


def without(name: str) -> dict[str, Any]:
    return {other: value for other, value in PRESET.items() if other != name}


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (PRESET, ()),
        (PRESET | {"steps": 9, "batch": 7}, ("batch=7", "steps=9")),
        (PRESET | {"given_up": 1}, ("given_up=1",)),
        (PRESET | {"given_up": None}, ("given_up=None",)),
        (without("guidance"), ()),
        (without("patch"), ("patch=2",)),
    ],
)
def test_settings_are_held_against_those_of_the_preset(
    settings: dict[str, Any], found: tuple[str, ...]
) -> None:
    """A setting that was not there yet had its default; of the digits' preset, `patch` has not."""
    config = {"method": "dpdm", "dataset": "digits", "epsilon": 2.0, "settings": settings}
    assert departures(config | {"changes": ["of another day"]}) == found


def test_of_a_method_that_is_not_here_it_says_what_the_run_says() -> None:
    config = {"method": "elsewhere", "dataset": "digits", "epsilon": 2.0, "settings": {"a": 1}}
    assert departures(config | {"changes": ["a=1"]}) == ("a=1",)


def test_nothing_that_evidence_names_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of somebody's evidence runs none of their code."""
    (tmp_path / "named_by_evidence.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for method in ("named_by_evidence.py:Method", "named_by_evidence:Method"):
        config = {"method": method, "dataset": "digits", "epsilon": 2.0, "settings": {}}
        assert departures(config | {"changes": ["a=1"]}) == ("a=1",)
    assert "named_by_evidence" not in sys.modules


@pytest.mark.parametrize("method", method_names())
def test_no_preset_departs_from_itself(method: str) -> None:
    settings = config_to_json(resolve_config(get_method(method), "mnist", 10.0).config)
    config = {"method": method, "dataset": "mnist", "epsilon": 10.0, "settings": settings}
    assert departures(config) == ()
