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
from pathlib import Path
from types import ModuleType
from typing import Any

FOUNDATIONS = ("torch", "numpy", "safetensors")
"""What every image with a GPU has; what these need themselves is there too."""


class _Without(MetaPathFinder):
    """A finder that does not know of some packages, as if they were not installed."""

    def __init__(self, finder: Any, absent: frozenset[str]) -> None:
        self._finder, self._absent = finder, absent

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in self._absent:
            return None
        found: ModuleSpec | None = self._finder.find_spec(name, path, target)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def become_bare(own: str, needs: Sequence[str] = ()) -> None:
    """From now on only what a bare GPU image has, the package `own` and what it says that it
    needs can be imported."""
    known = packages_distributions()
    present = _with_needs((*FOUNDATIONS, *needs)) | {"understudy", *map(_plain, known.get(own, ()))}
    installed = {p for p, who in known.items() if not any(_plain(d) in present for d in who)}
    absent = frozenset(installed - {own, *sys.stdlib_module_names})
    sys.meta_path[:] = [_Without(finder, absent) for finder in sys.meta_path]


def _with_needs(distributions: Sequence[str]) -> frozenset[str]:
    """These distributions and everything that they require."""
    found: set[str] = set()
    waiting = [_plain(d) for d in distributions]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
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
    module, _, name = job["method"].partition(":")
    become_bare(module.partition(".")[0], job["needs"])
    from understudy.audit.rehearsal import rehearse
    from understudy.data.weights_file import WeightsFile
    from understudy.methods.config import build_config
    from understudy.privacy.plan.plan import Plan

    method = getattr(importlib.import_module(module), name)()
    config = build_config(method.Config, job["config"])
    weights = {
        name: WeightsFile.from_json(facts, Path(facts["path"]))
        for name, facts in job["weights"].items()
    }
    plan = Plan.from_json(job["plan"])
    rehearse(method, config, plan, count=60, seed=1, weights=weights)


if __name__ == "__main__":
    main()
