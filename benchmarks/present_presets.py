"""How runs in the evidence stand to the presets as they are now: presets change after runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from understudy.methods.config import resolve_config
from understudy.methods.registry import get_method


def departures(config: Mapping[str, Any]) -> list[str]:
    """The settings of a run that its preset does not have, or has otherwise, by name; and those
    that there were none of then, where the preset has more than their default."""
    now = settings_now(config["method"], config["dataset"], config["epsilon"])
    plain = _as_evidence(get_method(config["method"]).Config())
    then = {name: value for name, value in plain.items() if name in now} | config["settings"]
    return sorted(f"{name}={value}" for name, value in then.items() if now.get(name) != value)


def settings_now(method: str, dataset: str, epsilon: float) -> dict[str, Any]:
    """All settings of a preset, as evidence has them."""
    return _as_evidence(resolve_config(get_method(method), dataset, epsilon).config)


def _as_evidence(config: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    return found
