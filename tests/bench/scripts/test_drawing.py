"""The speed of drawing is measured where only torch is, and becomes evidence."""

from __future__ import annotations

import json
from pathlib import Path

from tests.scripts import FOLDER, run_bare, run_script


def test_there_and_back(tmp_path: Path) -> None:
    small = ("--network", "tiny", "--images", "20")
    run_bare("drawing", *small, "--device", "cpu", "--out", "found", cwd=tmp_path)
    found = json.loads((tmp_path / "found" / "drawing.json").read_text())
    assert set(found["ways"]) == {"as it stands", "compiled"}
    assert found["grey levels apart"] == {"mean": 0.0, "most": 0}, "a CPU compiles neither"
    words = ("--evidence", "found", "--store", "store")
    run_script(str(FOLDER / "drawing.py"), *words, cwd=tmp_path)
    kept = json.loads((tmp_path / "store" / "drawing.json").read_text())
    assert kept["commit"] != "unknown"
    assert kept["result"]["ways"]["compiled"]["passes_per_second"] > 0
