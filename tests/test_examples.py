"""Every example in a docstring gives what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import understudy

PACKAGE = Path(understudy.__file__).parent


def _modules_with_examples() -> list[str]:
    found = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text("utf-8")]
    return [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in found]


@pytest.mark.parametrize("name", _modules_with_examples())
def test_examples_hold(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert outcome.attempted > 0
    assert outcome.failed == 0
