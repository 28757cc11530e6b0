"""The parts of a private step are timed, and whole steps are taken through the door."""

from __future__ import annotations

import json
from pathlib import Path

from tests.scripts import run_bare


def test_it_runs_where_only_torch_is(tmp_path: Path) -> None:
    words = ["--network", "tiny", "--records", "200", "--batch", "20", "--steps", "2"]
    run_bare("step_parts", *words, "--out", "found", cwd=tmp_path)
    found = json.loads((tmp_path / "found" / "step_parts.json").read_text())
    assert len(found["code"]) == 64
    assert set(found["provenance"]) == {"commit", "dirty", "versions", "hardware"}
    assert [seconds > 0 for seconds in found["steps"].values()] == [True, True]
    assert found["parts"]["noise drawn and added"] > 0
    assert len(found["parts"]) == 10
