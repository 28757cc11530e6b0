"""Fit and sample where only torch, numpy, safetensors and the standard library exist.

Run as a program: reads a job (method, config, plan) as JSON from standard input.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

BLOCKED = frozenset(
    {
        *("dp_accounting", "opacus", "prv_accountant", "sklearn", "scipy", "pandas", "pyarrow"),
        *("datasets", "huggingface_hub", "PIL", "yaml", "typer", "click", "rich", "pydantic"),
        *("matplotlib", "cryptography"),
    }
)


class BareMachine(MetaPathFinder):
    """Refuses the packages that a bare GPU image does not have."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"fit and sample may not import {name}")
        return None


def main() -> None:
    sys.meta_path.insert(0, BareMachine())
    job = json.load(sys.stdin)
    from understudy.audit.rehearsal import rehearse
    from understudy.methods.config import build_config
    from understudy.methods.contract import Synthesizer
    from understudy.privacy.plan import Plan

    module, _, name = job["method"].partition(":")
    method = getattr(importlib.import_module(module), name)()
    config = build_config(method.Config, job["config"])
    result = rehearse(method, config, Plan.from_json(job["plan"]), count=60, seed=1).result
    if isinstance(result, Synthesizer):
        result.sample(3, seed=0)


if __name__ == "__main__":
    main()
