"""Figures chosen on test data stay benchmarks' figures: no release, card or claim takes them."""

from __future__ import annotations

import ast
import inspect
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

import understudy.run
from tests import drawing
from tests.workplace import SMALL_MERF, Workplace
from understudy.errors import UserError
from understudy.evaluation.metric import Evaluation
from understudy.evaluation.protocol import load_protocol, protocol_names
from understudy.report.model import OwnerData, ReportData

PACKAGE = Path(inspect.getfile(understudy.run)).parents[1]
WARNING = "never releasable"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A released run, evaluated with a protocol that chooses on its test part."""
    place = Workplace(tmp_path_factory.mktemp("place"))
    drawing.class_folder(place / "photos", count=40)
    place.run("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "out").succeeded()
    peeking = load_protocol(place.quick_protocol()).changed(
        {"selection": "test", "summaries": ["best"], "training": {"epochs": 2}}
    )
    (place / "peeking.yaml").write_text(yaml.safe_dump(peeking.to_json()))
    words = ("evaluate", "--run", "runs/out", "--protocol", "peeking.yaml")
    assert WARNING in place.run(*words).succeeded().out
    return place


def test_the_owner_gets_both_figures_and_the_warning(judged: Workplace) -> None:
    metrics = json.loads((judged / "runs/out/metrics.json").read_text())
    assert [row["selection"] for row in metrics["rows"]] == [*["test", "held-out"] * 2, "held-out"]
    assert WARNING in metrics["protocol"]["stamp"]
    assert "chosen on test" in (judged / "runs/out/report.html").read_text()


def test_nothing_of_them_reaches_release_or_public_report(judged: Workplace) -> None:
    page = (judged / "runs/out/report-public.html").read_text()
    files = [p for p in (judged / "out").rglob("*") if p.is_file()]
    released = "".join(p.read_bytes().decode("latin-1") for p in files)
    for words in ("chosen on test", "gen2real", "never releasable", "metrics.json"):
        assert words not in page
        assert words not in released


def test_they_are_not_written_into_the_release(judged: Workplace) -> None:
    evaluation = Evaluation.read(judged / "runs/out/metrics.json")
    assert evaluation.benchmark_only
    with pytest.raises(UserError, match="lies in a release"):
        evaluation.write(judged / "out")
    words = ("evaluate", "out", "--test", "photos", "--protocol", "peeking.yaml")
    said = judged.run(*words, "-o", "out/figures")
    assert said.code == 2
    assert "lies in the release" in said.err


@pytest.mark.parametrize(
    ("protocol", "refused"), [("dpimagebench-test-selected", True), ("an outside committee", False)]
)
def test_a_run_selected_by_such_a_protocol_is_not_released(
    workplace: Workplace, protocol: str, refused: bool
) -> None:
    drawing.class_folder(workplace / "photos", count=40)
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "out")
    chosen = ("--selected-among", "two widths", "--selected-by", protocol)
    said = workplace.run(*words, *chosen).succeeded()
    assert ("selected on test data" in said.out) == refused
    assert (workplace / "out").exists() == (not refused)


def mentions(room: str) -> set[str]:
    """Modules of a room that name an evaluation or its file in code, not in words."""
    found = set()
    for path in (PACKAGE / room).rglob("*.py"):
        tree = ast.parse(path.read_text())
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        names |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        if names & {"Evaluation", "metrics"}:
            found.add(path.relative_to(PACKAGE).as_posix())
    return found


def test_evaluations_are_taken_in_by_the_owners_side_only() -> None:
    """A new place that takes one must be looked at: is it the owner's, or is it handed on?"""
    assert mentions("release") == set()
    assert mentions("report") == {f"report/{name}.py" for name in ("model", "render", "results")}
    assert "metrics" in {field.name for field in fields(OwnerData)}
    assert "metrics" not in {field.name for field in fields(ReportData)}
    source = (PACKAGE / "report" / "render.py").read_text()
    assert re.findall(r"(\w+)\.metrics", source) == ["owner"] * source.count(".metrics")
    assert source.count(".metrics") >= 1


def test_every_shipped_protocol_is_sound_or_says_that_it_is_not() -> None:
    for name in protocol_names():
        protocol = load_protocol(name)
        assert (WARNING in (protocol.stamp or "")) == protocol.benchmark_only
