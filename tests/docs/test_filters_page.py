"""The measured part of the page of filters is made from the evidence files."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

from tests.scripts import load_script


def maker() -> ModuleType:
    return load_script("filters_page")


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


def test_faces_stand_beside_the_paper_on_celeba() -> None:
    page = maker()
    figures = [f"{a} {b}" for a in ("hidden", "kept", "information", "parity") for b in page._SENT]
    ours = {name: round(0.5 + i / 100, 3) for i, name in enumerate(figures)}
    choice = {"with": "hide gender, keep young", "hidden": "gender", "reader": "mlp-60"}
    papers = [
        {"method": method, "metric": f"{name} accuracy", "value": value, "note": ""}
        for method, values in {
            "vae": (0.90, 0.86), "majority-guess": (0.51, 0.5), "generative-filter": (0.61, 0.83)
        }.items()
        for name, value in zip(("hidden male", "kept smiling"), values, strict=True)
    ]  # fmt: skip
    result = {
        "published": papers,
        "table": [{**choice, "majority": 0.52, **ours}],
        "seeds": [0],
    }
    _, first, _, second = page.faces(result)
    assert first.splitlines()[2:] == [
        "| hide gender, keep young, mlp-60 | gender | 0.520 | 0.500 | 0.510 | 0.520 | 0.530 "
        "| 0.540 | 0.550 | 0.560 | 0.570 |",
        "| the paper, keep smiling, mlp-60 | male | 0.510 | 0.900 | 0.610 |  |  "
        "| 0.860 | 0.830 |  |  |",
    ]
    assert second.splitlines()[2].startswith("| hide gender, keep young | gender | 0.580 | 0.590")
