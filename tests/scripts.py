"""The benchmark scripts as modules, so that tests can try what they measure with."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


def load_script(name: str) -> ModuleType:
    """`benchmarks/NAME.py`, which finds its siblings while it is loaded."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        spec.loader.exec_module(module)
    return module


def run_script(*words: str, cwd: Path) -> None:
    """Python with these words, in a process of its own that must end well."""
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def run_bare(name: str, *words: str, cwd: Path) -> None:
    """`benchmarks/NAME.py` where little but torch can be imported."""
    run_script("-m", "tests.bench.scripts.bare_script", str(FOLDER / f"{name}.py"), *words, cwd=cwd)


def accuracy_row(value: float, reference: float = 0.95, chance: float = 0.5) -> dict[str, float]:
    """A row of evidence, as far as figures and verdicts look at it."""
    return {
        "value": value,
        "low": value - 0.01,
        "high": value + 0.01,
        "reference": reference,
        "chance": chance,
    }
