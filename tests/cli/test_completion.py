"""What a shell offers when Tab is pressed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from understudy.data.catalog import catalog
from understudy.methods.registry import method_names


def offered(*words: str) -> list[str]:
    """What bash would be told at the end of these words."""
    asked = {
        "_UNDERSTUDY_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("understudy", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from understudy.cli.main import app; app(prog_name='understudy')"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()


@pytest.mark.parametrize("before", [("synthesize", "digits", "--method"), ("methods",)])
def test_method_names_are_offered(before: tuple[str, ...]) -> None:
    wanted = [name for name in method_names() if name.startswith("dp-")]
    assert offered(*before, "dp-") == wanted


def test_dataset_names_are_offered() -> None:
    wanted = [name for name in catalog() if name.startswith("ci")]
    assert offered("synthesize", "ci") == wanted
    assert offered("methods", "--for", "ci") == wanted
