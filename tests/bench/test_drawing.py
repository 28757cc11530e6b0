"""The speed of drawing is measured where only torch is, and becomes evidence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.scripts import FOLDER


def test_there_and_back(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent), "OMP_NUM_THREADS": "1"}

    def run(*words: str) -> None:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    script, small = str(FOLDER / "drawing.py"), ("--network", "tiny", "--images", "20")
    bare = ("-m", "tests.bench.bare_script", script)
    run(*bare, *small, "--device", "cpu", "--out", "found")
    found = json.loads((tmp_path / "found" / "drawing.json").read_text())
    assert set(found["ways"]) == {"as it stands", "compiled"}
    assert found["grey levels apart"] == {"mean": 0.0, "most": 0}, "a CPU compiles neither"
    run(script, "--evidence", "found", "--store", "store")
    kept = json.loads((tmp_path / "store" / "drawing.json").read_text())
    assert kept["commit"] != "unknown"
    assert kept["result"]["ways"]["compiled"]["passes_per_second"] > 0
