"""The pictures of accuracy against epsilon show the evidence, and like runs alone."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest

from tests.scripts import load_script
from understudy.bench.evidence.store import read_store
from understudy.methods.config import config_to_json, resolve_config
from understudy.methods.registry import get_method


@pytest.fixture(scope="module")
def figure() -> ModuleType:
    return load_script("budgets_figure")


def test_the_pictures_are_drawn_from_the_evidence(figure: ModuleType) -> None:
    stored = read_store(figure.EVIDENCE).of_kind("run", trusted_only=True)
    drawn = figure.pictures([file.parsed() for file in stored])
    assert set(drawn) == {path.name for path in figure.IMAGES.glob("accuracy-*.svg")}
    for name, text in drawn.items():
        kept = (figure.IMAGES / name).read_text(encoding="utf-8")
        assert kept == text, f"run benchmarks/budgets_figure.py: {name} is of other evidence"


PRESET = config_to_json(resolve_config(get_method("dpdm"), "digits", 2.0).config)


def run(protocol: str = "standard", status: str = "ok", **changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {"dataset": "digits", "method": "dpdm", "epsilon": 2.0, "limit": None}
    whole["settings"] = PRESET
    read = {"value": 0.8, "low": 0.7, "high": 0.9, "reference": 0.95, "chance": 0.1}
    row = {"metric": "gen2real accuracy", "variant": "cnn", "status": "ok", **read}
    metrics = {"protocol": {"name": protocol}, "rows": [row]}
    return {"status": status, "config": whole | changes, "metrics": metrics}


@pytest.mark.parametrize(
    ("changes", "drawn"),
    [
        ({}, True),
        ({"status": "failed"}, False),
        ({"limit": 50}, False),
        ({"settings": PRESET | {"steps": 9}}, False),
        ({"settings": PRESET | {"withdrawn": 1}}, False),
        ({"settings": {n: v for n, v in PRESET.items() if n != "guidance"}}, True),
        ({"settings": {n: v for n, v in PRESET.items() if n != "patch"}}, False),
        ({"dataset": "portraits"}, False),
    ],
)
def test_only_whole_runs_by_presets_are_drawn(
    figure: ModuleType, changes: dict[str, Any], drawn: bool
) -> None:
    assert bool(figure.points_of(run(**changes))) is drawn


def test_another_protocol_is_not_mixed_in(figure: ModuleType) -> None:
    assert figure.points_of(run())
    assert not figure.points_of(run(protocol="reduced"))


def test_real_images_have_a_line_only_where_they_were_measured(figure: ModuleType) -> None:
    without = run()
    without["metrics"]["rows"][0]["reference"] = None
    assert "real images 0.950" in figure.pictures([run()])["accuracy-cnn.svg"]
    assert "real images" not in figure.pictures([without])["accuracy-cnn.svg"]


def test_one_panel_is_as_wide_as_its_words_and_has_a_margin(figure: ModuleType) -> None:
    drawn = figure.pictures([run()])["accuracy-cnn.svg"]
    box = re.search(r'viewBox="-(\d+) -\1 (\d+) \d+"', drawn)
    assert box, "without a margin the first letters are cut off"
    assert int(box[2]) > 7 * len("gen2real accuracy of cnn on real test images")
