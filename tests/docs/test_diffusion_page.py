"""The measured part of the page of private diffusion is made from the evidence files."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.scripts import load_script
from understudy.methods.config import config_to_json, resolve_config
from understudy.methods.registry import get_method


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return load_script("diffusion_page")


def test_the_page_is_made_from_the_evidence(page: ModuleType) -> None:
    written = page.PAGE.read_text(encoding="utf-8")
    shown = page.HEADING + written.partition(page.HEADING)[2]
    assert shown == page.section(page.EVIDENCE), "run benchmarks/diffusion_page.py"


def test_what_was_not_measured_is_named(page: ModuleType, tmp_path: Path) -> None:
    assert "`engine` is still to be measured" in page.section(tmp_path)
    row: dict[str, Any] = {"ratio": 1.25, "network": "28", "parameters": 2e6, "draws": 32}
    row |= {"multiply_adds": 7e8, "passes_per_second": 12345.6, "peak_gigabytes": 9.87}
    peer = {"parameters": 1e6, "multiply_adds": 6e8}
    promised = {"passes_per_second": 10000, "peak_gigabytes": 11, "ratio": 1.3}
    result = {"rows": [row], "peer": peer, "promised": promised}
    (tmp_path / "engine.json").write_text(json.dumps({"result": result}))
    told = page.section(tmp_path)
    assert "| 28x28, 2.0M | 32 | 700M | 12,346 | 9.9 GB | 1.25 |" in told
    assert "`engine` is still" not in told


def test_a_promise_that_was_not_kept_is_said(page: ModuleType) -> None:
    read = {"cnn": {"value": 0.7}}
    for kept, words in ((True, "; kept)"), (False, "; not kept)")):
        (told,) = page.digits({"gen2real accuracy": read, "cores": 2, "kept": kept})
        assert words in told


def test_what_a_gpu_computes_stands_beside_what_is_promised(page: ModuleType) -> None:
    found = page.measured(page.EVIDENCE / "gpu-checks.json")
    said, shown = page.gpu_checks(found)
    assert "values equal those of a CPU" in said
    assert "(kept)" in said
    assert len(shown.splitlines()) == 2 + len(found["promised"])
    broken = found | {"kept": False, "stream": {"equal": False}}
    assert "values do not equal those of a CPU" in page.gpu_checks(broken)[0]
    assert "(not kept)" in page.gpu_checks(broken)[0]


def test_a_cell_says_what_it_took_and_what_it_changed(page: ModuleType) -> None:
    rows = [
        {"variant": "wrn-40-4", "value": 0.811, "low": 0.804, "high": 0.819},
        {"variant": "mean of wrn-40-4, cnn", "value": 0.805, "low": 0.8, "high": 0.81},
    ]
    config: dict[str, Any] = {"dataset": "digits", "method": "dpdm", "epsilon": 1.0}
    preset = resolve_config(get_method("dpdm"), "digits", 1.0).config
    config["settings"] = config_to_json(preset) | {"steps": 9}
    seconds = {"fit": 472.6, "sample": 33.8}
    told = page._cell({"config": config, "seconds": seconds, "metrics": {"rows": rows}})
    cell, named, mean, took = told
    assert cell == "digits dpdm epsilon 1, steps=9"
    assert (named, mean, took) == ("81.1% (80.4 to 81.9)", "80.5%", "473 + 34 s")
