"""Fit and sample where only torch, numpy, safetensors and the standard library exist.

Run as a program: reads a job (method, config, plan) as JSON from standard input.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from types import ModuleType

FOUNDATIONS = ("torch", "numpy", "safetensors")
"""What every image with a GPU has; what these need themselves is there too."""


class BareMachine(MetaPathFinder):
    """Refuses what is installed here and would not be on a bare GPU image.

    own: the top-level package of the method under test, which comes along with it.
    """

    def __init__(self, own: str) -> None:
        known = packages_distributions()
        present = _with_needs((*FOUNDATIONS, "understudy", *known.get(own, ())))
        self._absent = frozenset(
            package
            for package, distributions in known.items()
            if not any(_plain(d) in present for d in distributions)
        ) - {own, *sys.stdlib_module_names}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name.partition(".")[0] in self._absent:
            raise ModuleNotFoundError(f"fit and sample may not import {name}", name=name)
        return None


def _with_needs(distributions: Sequence[str]) -> frozenset[str]:
    """These distributions and everything that they require; not understudy's own needs."""
    found: set[str] = set()
    waiting = [_plain(d) for d in distributions]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        if name in FOUNDATIONS or name not in distributions:
            waiting += _needs(name)
    return frozenset(found)


def _needs(distribution: str) -> list[str]:
    try:
        lines = requires(distribution) or []
    except PackageNotFoundError:
        return []
    names = [re.match(r"[\w.-]+", line) for line in lines if "extra ==" not in line]
    return [_plain(name[0]) for name in names if name]


def _plain(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def main() -> None:
    job = json.load(sys.stdin)
    sys.path += [place for place in job["path"] if place not in sys.path]
    module, _, name = job["method"].partition(":")
    sys.meta_path.insert(0, BareMachine(module.partition(".")[0]))
    from understudy.audit.rehearsal import rehearse
    from understudy.methods.config import build_config
    from understudy.methods.contract import Synthesizer
    from understudy.privacy.plan import Plan

    method = getattr(importlib.import_module(module), name)()
    config = build_config(method.Config, job["config"])
    result = rehearse(method, config, Plan.from_json(job["plan"]), count=60, seed=1).result
    if isinstance(result, Synthesizer):
        result.sample(3, seed=0)


if __name__ == "__main__":
    main()
