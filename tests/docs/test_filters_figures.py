"""The pictures of the page of filters are drawn from its evidence, and the sweeps say who wins."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from types import ModuleType
from typing import Any

import pytest

from tests.scripts import accuracy_row as row
from tests.scripts import load_script


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return load_script("filters_page")


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    return load_script("filters_figures")


def test_the_pictures_are_drawn_from_the_evidence(figures: ModuleType) -> None:
    there = {path.name for path in figures.IMAGES.glob("filters-*.svg")}
    drawn = figures.pictures(figures.mnist_result(figures.EVIDENCE))
    assert there == set(drawn), "run benchmarks/filters_figures.py"
    for name, text in drawn.items():
        kept = (figures.IMAGES / name).read_text(encoding="utf-8")
        assert kept == text, f"run benchmarks/filters_figures.py: {name} is of another measurement"


def sweep(hidden: float) -> dict[str, Any]:
    """One budget: the filter reads `hidden`, noise 0.8; both keep 0.9."""
    points = [
        {
            "method": method,
            "budget": 1.0,
            "accuracy": {"hide": row(read), "keep": row(0.9)},
            "information": row(0.2, 0.5, 0.0),
        }
        for method, read in (("network", hidden), ("gaussian", 0.8))
    ]
    return {
        "roles": {"hide": "hidden", "keep": "kept"},
        "curves": points,
        "verdicts": [
            {"method": "network", "budget": 1.0, "compared": True, "filter is ahead": hidden < 0.8}
        ],
        "seeds": {"0": []},
    }


def test_a_sweep_says_where_the_filter_is_behind(page: ModuleType) -> None:
    good, bad = (page.mnist({"sweep-2": sweep(hidden)}) for hidden in (0.6, 0.85))
    assert "| network | 1 | 0.600 | 0.900 | 0.200 |" in good[1]
    assert "at 1 of 1 places" in good[2]
    assert good[2].endswith("chance).")
    assert "at 0 of 1 places" in bad[2]
    assert "not for: network at 1." in bad[2]


def test_pictures_change_with_what_was_measured(figures: ModuleType) -> None:
    confusion = {"confusion": [[0.9, 0.1], [0.2, 0.8]]}
    case = {"seeds": {"0": {"raw": confusion, "network": confusion}}}
    one, two = (
        figures.pictures({"sweep-1": sweep(h), "sweep-2": sweep(h), "case-2": case})
        for h in (0.6, 0.7)
    )
    assert set(one) == {
        "filters-accuracy-case-1.svg",
        "filters-accuracy-case-2.svg",
        "filters-confusion-case-2.svg",
        "filters-information.svg",
    }
    for text in one.values():
        assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    name = "filters-accuracy-case-2.svg"
    assert "network filter 0.600 at 1" in one[name]
    assert "network filter 0.700 at 1" in two[name]
    assert "85% right" in one["filters-confusion-case-2.svg"]


def test_a_picture_of_points_names_every_class() -> None:
    points = [(0.0, 0.0), (1.0, 2.0), (1.1, 2.1), (0.1, 0.2)]
    text = load_script("pictures").scatter(points, [0, 7, 7, 0], "UMAP of something")
    drawn = ET.fromstring(text)
    marks = drawn.findall("{http://www.w3.org/2000/svg}circle")
    assert len(marks) == 4
    assert len({mark.get("fill") for mark in marks}) == 2
    words = [one.text for one in drawn.findall("{http://www.w3.org/2000/svg}text")]
    assert words == ["UMAP of something", "0", "7"]
