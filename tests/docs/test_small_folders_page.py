"""What the page says of small folders is made from the evidence files."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

from tests.scripts import load_script


def maker() -> ModuleType:
    return load_script("small_folders_page")


def test_the_page_is_made_from_the_evidence() -> None:
    page = maker()
    written = page.PAGE.read_text(encoding="utf-8")
    measured = page.HEADING + written.partition(page.HEADING)[2]
    assert measured == page.section(page.EVIDENCE), "run benchmarks/small_folders_page.py"


def test_another_figure_makes_another_page(tmp_path: Path) -> None:
    page = maker()
    assert "`forecasts-cpu` is still to be measured" in page.section(tmp_path)
    row = {"folder": "scans", "method": "dp-merf", "forecast": 30.0, "took": 20.0}
    result = {"runs": [row], "off by at most": 1.5}
    (tmp_path / "forecasts-cpu.json").write_text(json.dumps({"result": result}))
    made = page.section(tmp_path)
    assert "off by a factor of 1.50" in made
    assert "| scans | dp-merf | 30 s | 20 s |" in made
