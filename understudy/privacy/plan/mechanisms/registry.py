"""Mechanisms by their kind: those of `builtin.json`, each imported when it is asked for."""

from __future__ import annotations

import importlib
import importlib.resources
import json
from functools import cache
from typing import cast

from understudy.privacy.plan.mechanisms.mechanism import Mechanism


@cache
def built_in() -> dict[str, str]:
    """Where each built-in mechanism lives, by its kind.

    JSON, because a machine that only fits has no reader of YAML.
    """
    text = importlib.resources.files(__package__).joinpath("builtin.json").read_text()
    return cast(dict[str, str], json.loads(text))


def mechanism_kinds() -> tuple[str, ...]:
    return tuple(built_in())


@cache
def mechanism_class(kind: str) -> type[Mechanism]:
    module, _, name = built_in()[kind].partition(":")
    return cast(type[Mechanism], getattr(importlib.import_module(module), name))
