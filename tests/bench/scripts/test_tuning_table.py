"""A sweep of settings, and what it has shown so far."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.bench.away.test_classify_away import measured_cell, packed, work_off
from tests.bench.rig import MERF
from tests.scripts import FOLDER, load_script
from tests.workplace import Workplace
from understudy.bench.away import fit_jobs as away
from understudy.bench.suite.suite import load_suite

script = load_script("tuning_table")
drawing_table = load_script("drawing_table")
DENOISER = (
    *("attention=0", "batch=8", "blocks=1", "multipliers=1", "multiplicity=2", "patch=8"),
    *("sampling_steps=2", "steps=1", "width=8"),
)


def test_every_run_has_its_own_settings_and_figures(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    longer = tuple("steps=5" if change == "steps=3" else change for change in MERF)
    cells = [measured_cell(workplace), measured_cell(workplace, settings=longer)]
    packed(workplace, *cells)
    before = script.table(workplace / "job")
    assert sorted(row["settings"]["steps"] for row in before) == [3, 5]
    assert all(len(row["settings"]) == 1 for row in before)
    assert all(row["accuracy"] == row["seconds"] == {} for row in before)
    assert "no figure" in script.line(before[0])
    assert work_off(workplace) == away.OK
    capsys.readouterr()
    script.main([str(workplace / "job"), "--json", str(workplace / "found.json")])
    found = json.loads((workplace / "found.json").read_text())
    assert [set(row["accuracy"]) for row in found] == [{"mlp", "mlp-100"}] * 2
    assert all(set(row["seconds"]) == {"fit", "sample", "classify"} for row in found)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all("steps" in line and "%" in line for line in lines)
    store = workplace / "store"
    script.main(["--evidence", str(workplace / "found.json"), "--store", str(store)])
    kept = json.loads((store / "tuning.json").read_text())["result"]["runs"]
    assert [row["accuracy"] for row in kept] == [row["accuracy"] for row in found]
    assert [row["config"]["steps"] for row in kept] == [row["settings"]["steps"] for row in found]


def test_runs_of_two_commits_make_no_evidence(workplace: Workplace) -> None:
    told = {"commit": "a", "dirty": False, "versions": {}, "hardware": {}}
    row = {"run": "first", "title": "t", "accuracy": {"mlp": 0.5}, "seconds": {}}
    rows = [
        {**row, "provenance": told},
        {**row, "run": "second", "provenance": {**told, "commit": "b"}},
    ]
    (workplace / "found.json").write_text(json.dumps(rows))
    with pytest.raises(SystemExit, match="2 commits"):
        script.main(["--evidence", str(workplace / "found.json"), "--store", str(workplace)])
    (workplace / "none.json").write_text("[]")
    with pytest.raises(SystemExit, match="no run in these files has a figure"):
        script.main(["--evidence", str(workplace / "none.json"), "--store", str(workplace)])
    with pytest.raises(SystemExit):
        script.main([])


def test_the_sweep_of_diffusion_settings_is_a_suite_of_both_datasets() -> None:
    """What is chosen for one dataset is chosen on the other: each setting is tried on both."""
    cells = load_suite(FOLDER / "tuning" / "diffusion.yaml").cells
    tried: dict[str, list[object]] = {name: [] for name in ("mnist", "fashion-mnist")}
    for cell in cells:
        tried[cell.dataset].append((cell.method, cell.epsilon, cell.settings))
    assert tried["mnist"] == tried["fashion-mnist"]
    assert {(cell.method, cell.epsilon) for cell in cells} == {("dp-feta", 1), ("dp-feta", 10)}


def test_one_cell_of_the_suite_is_run_in_other_times_too() -> None:
    """In less than its own, and in more."""
    cells = load_suite(FOLDER / "minutes.yaml").cells
    assert len({cell.settings for cell in cells}) == 2
    (same,) = {replace(cell, settings=()) for cell in cells}
    assert same in load_suite("diffusion").cells


def test_ways_of_drawing_are_compared_on_one_fit(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    packed(workplace, measured_cell(workplace, method="dpdm", settings=DENOISER))
    ways = [{"guidance": 1.0}, {"name": "ddim", "steps": 1}]
    (workplace / "ways.json").write_text(json.dumps(ways))
    words = ["--ways", str(workplace / "ways.json"), "--json", str(workplace / "found.json")]
    drawing_table.main([str(workplace / "job"), *words])
    assert capsys.readouterr().out.startswith("not fitted yet: ")
    assert not (workplace / "found.json").exists()
    assert work_off(workplace) == away.OK
    drawing_table.main([str(workplace / "job"), *words])
    found = json.loads((workplace / "found.json").read_text())
    assert [row["way"] for row in found] == ways
    assert all(set(row["accuracy"]) == {"mlp", "mlp-100"} for row in found)
    assert found[0]["config"]["steps"] == 1
