"""How the settings of runs stand to the presets as they are now: presets change after runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.errors import UserError
from understudy.methods.config import config_to_json, resolve_config
from understudy.methods.registry import Registry

_NOT_THERE = object()


def departures(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The settings of a run, as its evidence has them, that its preset has otherwise or not at
    all; and those that there were none of then, where the preset has more than their default.

    What the run itself changed, where its method is not registered here. No other is looked for:
    evidence may be anybody's, and a method is also called by a file or module to import.
    """
    try:
        method = Registry.discover().get(config["method"])
    except UserError:
        return tuple(config.get("changes", ()))
    now = config_to_json(resolve_config(method, config["dataset"], config["epsilon"]).config)
    then = config_to_json(method.Config()) | config["settings"]
    changed = {name: value for name, value in then.items() if now.get(name, _NOT_THERE) != value}
    return tuple(sorted(f"{name}={value}" for name, value in changed.items()))
