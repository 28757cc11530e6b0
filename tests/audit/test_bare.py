"""The bare machine: what it has, what it lacks, and that it lacks it as a real one would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

SCRIPT = """
import importlib.util, json, sys
from understudy.audit.bare import become_bare
become_bare("understudy")
found = {}
for name in sys.argv[1:]:
    try:
        __import__(name)
        found[name] = "there"
    except ModuleNotFoundError as error:
        found[name] = str(error)
found["spec of scipy"] = str(importlib.util.find_spec("scipy"))
print(json.dumps(found))
"""

THERE = ("torch", "numpy", "safetensors.torch", "json", "sympy", "understudy.privacy.door.door")
ABSENT = ("scipy", "sklearn", "opacus", "dp_accounting", "PIL", "yaml", "pyarrow", "pandas", "tqdm")


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *THERE, *ABSENT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("name", THERE)
def test_there(found: dict[str, str], name: str) -> None:
    assert found[name] == "there"


@pytest.mark.parametrize("name", ABSENT)
def test_absent_as_if_it_were_not_installed(found: dict[str, str], name: str) -> None:
    assert found[name] == f"No module named {name!r}"


def test_a_package_that_asks_first_is_told_no(found: dict[str, str]) -> None:
    assert found["spec of scipy"] == "None"
