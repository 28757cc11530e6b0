"""`understudy evaluate`: the table, the file, and what it refuses."""

from __future__ import annotations

import json
import shutil

import pytest

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace
from understudy.release.verify import verify

REDUCED = ("--protocol", "reduced")


@pytest.fixture(scope="module")
def released(shared_workplace: Workplace) -> Workplace:
    """A release of digits, and one of a folder, both from tiny runs."""
    place = shared_workplace
    place.run("synthesize", "digits", *SMALL_MERF, "--epsilon", "1", "-o", "digits").succeeded()
    drawing.class_folder(place / "photos")
    place.run("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "out").succeeded()
    return place


@pytest.mark.slow
def test_a_release_against_a_catalog_name(released: Workplace) -> None:
    said = released.run("evaluate", "digits", "--real", "digits", *REDUCED, "-o", "figures")
    table = said.succeeded().out
    assert "gen2real accuracy" in table
    assert "reduced protocol: not comparable with published figures" in table
    figures = json.loads((released / "figures/metrics.json").read_text())
    assert figures["format"] == "understudy-metrics/1"
    assert figures["dataset"] == "digits"
    row = next(r for r in figures["rows"] if r["metric"] == "gen2real accuracy")
    assert row["low"] <= row["value"] <= row["high"]
    assert row["reference"] > 0.8 > 0.2 > row["chance"]
    assert verify(released / "digits").ok, "evaluating leaves the release alone"


def test_attacks_without_the_records_that_were_fitted_on_are_refused(released: Workplace) -> None:
    words = ("evaluate", "out", "--test", "photos", "--protocol", "leakage", "-o", "nothing")
    released.run(*words).refused("leakage", "--run", "fitted on")
    assert not (released / "nothing").exists()


def test_figures_are_not_written_over(released: Workplace) -> None:
    (released / "taken").mkdir()
    (released / "taken/metrics.json").write_text("mine")
    released.run("evaluate", "digits", "--real", "digits", *REDUCED, "-o", "taken").refused("taken")
    assert (released / "taken/metrics.json").read_text() == "mine"


def test_a_run_on_its_own_test_part(released: Workplace) -> None:
    words = ("evaluate", "--run", "runs/out", "--protocol", released.quick_protocol(), "--json")
    said = released.run(*words).succeeded().json()
    assert said["dataset"] == "photos"
    assert json.loads((released / "runs/out/metrics.json").read_text()) == said
    assert "gen2real accuracy" in (released / "runs/out/report.html").read_text()


def test_the_figures_of_another_protocol_stay(released: Workplace) -> None:
    first = released.quick_protocol()
    words = ("evaluate", "--run", "runs/out", "--json", "--protocol")
    released.run(*words, first).succeeded()
    before = (released / "runs/out/metrics.json").read_text()
    other = released / "other.yaml"
    other.write_text((released / "quick.yaml").read_text().replace("name: reduced", "name: oth/er"))
    released.run(*words, str(other)).succeeded()
    assert (released / "runs/out/metrics-reduced.json").read_text() == before
    assert json.loads((released / "runs/out/metrics.json").read_text())["protocol"]["name"] == (
        "oth/er"
    )
    released.run(*words, first).succeeded()
    assert (released / "runs/out/metrics-oth-er.json").exists()


def test_a_release_of_another_size_is_measured_at_that_size(workplace: Workplace) -> None:
    words = ("synthesize", "digits", *SMALL_MERF, "--epsilon", "1", "--size", "12")
    workplace.run(*words, "--channels", "3", "-o", "big").succeeded()
    words = ("evaluate", "big", "--real", "digits", "--protocol", workplace.quick_protocol())
    said = workplace.run(*words, "--json").succeeded()
    assert said.json()["rows"][0]["status"] == "ok"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), ("RELEASE", "--run")),
        (("digits",), ("--real", "--test")),
        (("digits", "--real", "digits", "--test", "photos"), ("--real", "--test")),
        (("digits", "--real", "digitz"), ("--real", "digits")),
        (("nothing", "--real", "digits"), ("nothing",)),
        (("photos", "--real", "digits"), ("photos", "claim.json")),
        (("digits", "--test", "photos"), ("classes",)),
        (("digits", "--real", "digits", "--protocol", "quick"), ("quick", "reduced")),
        (("digits", "--real", "digits", "--full", *REDUCED), ("--full", "--protocol reduced")),
        (("runs/out", "--real", "digits"), ("runs/out", "manifest.sha256")),
        (("--run", "photos"), ("photos", "config.yaml")),
        (("--run", "runs/out", "--real", "digits"), ("--run", "--real")),
    ],
)
def test_what_is_refused(
    released: Workplace, words: tuple[str, ...], named: tuple[str, ...]
) -> None:
    before = released.tree()
    released.run("evaluate", *words).refused(*named)
    assert released.tree() == before


def test_figures_never_land_in_a_release(released: Workplace) -> None:
    """Rule 10: they are computed on real records, and a release is handed on."""
    for place in ("digits", "digits/data", "./digits/../digits/notes"):
        words = ("evaluate", "digits", "--real", "digits", *REDUCED, "-o", place)
        released.run(*words).refused("release")
    assert verify(released / "digits").ok


def test_a_run_that_stopped_early_says_so(released: Workplace) -> None:
    shutil.copytree(released / "runs/out", released / "runs/half")
    shutil.rmtree(released / "runs/half/samples")
    released.run("evaluate", "--run", "runs/half", *REDUCED).refused("runs/half", "--resume")
