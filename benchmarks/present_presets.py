"""How runs in the evidence stand to the presets as they are now: presets change after runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from understudy.methods.config import resolve_config
from understudy.methods.registry import get_method


def departures(config: Mapping[str, Any]) -> list[str]:
    """The settings of a run that its preset does not have, or has otherwise, by name."""
    now = settings_now(config["method"], config["dataset"], config["epsilon"])
    settings = config["settings"].items()
    return sorted(f"{name}={value}" for name, value in settings if now.get(name) != value)


def settings_now(method: str, dataset: str, epsilon: float) -> dict[str, Any]:
    """All settings of a preset, as evidence has them."""
    preset = resolve_config(get_method(method), dataset, epsilon)
    found: dict[str, Any] = json.loads(json.dumps(asdict(preset.config)))
    return found
