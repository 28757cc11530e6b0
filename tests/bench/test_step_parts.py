"""The parts of a private step are timed, and whole steps are taken through the door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.scripts import FOLDER


def test_it_runs_where_only_torch_is(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench.bare_script", str(FOLDER / "step_parts.py")]
    words = ["--network", "tiny", "--records", "200", "--batch", "20", "--steps", "2"]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *words, "--out", "found"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found" / "step_parts.json").read_text())
    assert len(found["code"]) == 64
    assert set(found["provenance"]) == {"commit", "dirty", "versions", "hardware"}
    assert [seconds > 0 for seconds in found["steps"].values()] == [True, True]
    assert found["parts"]["noise drawn and added"] > 0
    assert len(found["parts"]) == 10
