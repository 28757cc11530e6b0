"""The measured part of the page of filters is made from the evidence files."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "filters_page", ROOT / "benchmarks" / "filters_page.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_from_the_evidence() -> None:
    page = maker()
    written = page.PAGE.read_text(encoding="utf-8")
    measured = page.HEADING + written.partition(page.HEADING)[2]
    assert measured == page.section(page.EVIDENCE), "run benchmarks/filters_page.py"


def test_another_figure_makes_another_page(tmp_path: Path) -> None:
    page = maker()
    assert "`filters_mnist` is still to be measured" in page.section(tmp_path)
    paper = {
        "method": "generative-filter",
        "metric": "hidden digit-at-least-5 accuracy",
        "value": 0.687,
        "note": "case 2",
    }
    for odd in (0.9, 0.8):
        part = {"mean": {"network, mlp-15": {"at-least-5": 0.7, "odd": odd}}, "seeds": {"0": {}}}
        result = {"published": {"1": [paper], "4": []}, "case-2": part}
        (tmp_path / "filters_mnist.json").write_text(json.dumps({"result": result}))
        made = page.section(tmp_path)
        assert f"| network, mlp-15 | 0.700 | {odd:.3f} |" in made
        assert "| the paper, filtered, mlp-15 | 0.687 |  |" in made
        assert "`filters_mnist` is still" not in made


def adult_result(page: ModuleType, paper: float) -> dict[str, object]:
    names = [f"{area} of hard labels" for area in page._AREAS]
    ours = {f"{name}, mlp-15": [0.7, 0.01] for name in (*page._FIGURES, *names)}
    papers = [
        {"method": "vfae", "metric": name, "value": paper, "note": ""}
        for name in (*page._FIGURES, *page._AREAS)
    ]
    far = {"metric": "kept income accuracy", "reader": "mlp-15", "ours": 0.7, "paper": paper}
    return {
        "methods": {"vfae": "VFAE"},
        "mean": {"vfae": {**ours, f"{page._PARITY}, mlp-15": [0.12, 0.01]}},
        "published": papers,
        "parity gap of the true labels": 0.2,
        "farthest from the paper": {"vfae": far},
        "seeds": {"0": {}},
    }


def test_adult_stands_beside_the_paper() -> None:
    page = maker()
    words, table, _, farthest = page.adult(adult_result(page, 0.8))
    assert table.splitlines()[2:] == [
        "| VFAE, mlp-15 | 0.700 | 0.700 | 0.700 | 0.700 | 0.120 |",
        "| the paper, vfae | 0.800 | 0.800 | 0.800 | 0.800 |  |",
    ]
    assert "labels' is 0.200" in words
    assert farthest == "- VFAE, mlp-15: kept income accuracy 0.700, the paper's 0.800"
    assert "the paper's 0.900" in page.adult(adult_result(page, 0.9))[3]
