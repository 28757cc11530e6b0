"""A run that is tested on data from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace
from understudy.data.load import load
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.progress import Silent
from understudy.release.near_copies import CopyScan
from understudy.run import reports
from understudy.run.outside_test import outside_test


@pytest.fixture(scope="module")
def released(shared_workplace: Workplace) -> Workplace:
    place = shared_workplace
    drawing.class_folder(place / "photos")
    drawing.class_folder(place / "elsewhere", count=30, seed=5)
    place.run("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "out").succeeded()
    return place


def evaluated(place: Workplace, *words: str) -> dict[str, object]:
    quick = ("--protocol", place.quick_protocol(), "--json")
    found: dict[str, object] = place.run("evaluate", "--run", "runs/out", *words, *quick).json()
    return found


def test_a_run_on_outside_data_has_real_training_data_as_its_reference(released: Workplace) -> None:
    own, said = evaluated(released), evaluated(released, "--test", "elsewhere")
    row = said["rows"][0]  # type: ignore[index]
    assert (row["status"], said["dataset"]) == ("ok", "elsewhere")
    assert row["reference"] is not None
    kept = json.loads((released / "runs/out/metrics-reduced.json").read_text())
    assert kept == own, "the figures on the run's own test part stay"
    evaluated(released)
    aside = json.loads((released / "runs/out/metrics-reduced-on-elsewhere.json").read_text())
    assert aside == said


def test_outside_figures_enter_the_owners_report_and_no_other(released: Workplace) -> None:
    before = {p: p.read_bytes() for p in (released / "out").rglob("*") if p.is_file()}
    evaluated(released, "--test", "elsewhere")
    run = released / "runs/out"
    assert "elsewhere" in (run / "report.html").read_text()
    shareable = (run / "report-public.html").read_text()
    assert "elsewhere" not in shareable
    assert "gen2real" not in shareable
    assert before == {p: p.read_bytes() for p in (released / "out").rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def own(released: Workplace) -> Records:
    return load(released / "photos").part("all")


def test_classes_are_matched_by_name_and_may_be_missing(
    released: Workplace, own: Records, tmp_path: Path
) -> None:
    only = drawing.class_folder(tmp_path / "only", count=6, classes=("round",))
    found = outside_test(str(only), str(released / "photos"), own, Silent())
    assert found.schema.classes == own.schema.classes == ("cross", "round")
    assert found.labels.tolist() == [1] * 6


def test_images_of_mixed_sizes_get_the_runs_size_and_colour(
    released: Workplace, own: Records, tmp_path: Path
) -> None:
    for i, side in enumerate((9, 20, 31)):
        path = tmp_path / "mixed" / "cross" / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((side, side + 3, 3), 40 * i, np.uint8)).save(path)
    found = outside_test(str(tmp_path / "mixed"), str(released / "photos"), own, Silent())
    assert found.shape == own.shape == (1, 8, 8)


def test_a_label_column_of_the_runs_name_is_taken(tmp_path: Path) -> None:
    drawing.metadata_folder(tmp_path / "a")
    drawing.metadata_folder(tmp_path / "b", count=10)
    like = load(tmp_path / "a", label="eyes", unit="person").part("all")
    found = outside_test(str(tmp_path / "b"), str(tmp_path / "a"), like, Silent())
    assert found.schema.names == ("eyes",)
    assert found.labels.tolist() == load(tmp_path / "b", label="eyes").part("all").labels.tolist()


def test_a_class_that_the_run_does_not_have_is_refused(
    released: Workplace, own: Records, tmp_path: Path
) -> None:
    other = drawing.class_folder(tmp_path / "other", count=6, classes=("cross", "rond"))
    with pytest.raises(UserError, match=r"'rond' that the run does not have.*round"):
        outside_test(str(other), str(released / "photos"), own, Silent())


def test_what_was_learnt_from_is_no_outside_data(released: Workplace) -> None:
    """A refusal shows no figure, so the book notes nothing new."""
    noted = released.book("evaluate")
    for place in ("photos", "photos/cross", "."):
        released.run("evaluate", "--run", "runs/out", "--test", place).refused("learnt from")
    assert released.book("evaluate") == noted


def test_an_evaluation_ends_in_a_verdict_for_the_owner_alone(released: Workplace) -> None:
    quick = ("--protocol", released.quick_protocol())
    words = ("evaluate", "--run", "runs/out", "--test", "elsewhere")
    out = " ".join(released.run(*words, *quick).succeeded().out.split())
    told = " ".join(evaluated(released, "--test", "elsewhere")["verdict"])  # type: ignore[arg-type]
    assert "Judged by the mlp" in told
    assert "on elsewhere" in told
    assert "Caution" not in told
    assert told in out, "the console says it last"
    run = released / "runs/out"
    assert "Judged by the mlp" in (run / "report.html").read_text()
    for path in (run / "report-public.html", *(released / "out").glob("*.*")):
        assert b"Judged by" not in path.read_bytes()
        assert b"private evaluation" not in path.read_bytes()


def test_the_verdict_on_a_hold_out_of_images_says_that_it_flatters(released: Workplace) -> None:
    told = " ".join(evaluated(released)["verdict"])  # type: ignore[arg-type]
    assert "split by image, not by person" in told
    assert "--run runs/out" in told
    assert "epsilon 1 (delta 1e-05)" in told


def test_the_verdict_on_a_release_claims_no_share(released: Workplace) -> None:
    words = ("evaluate", "out", "--test", "elsewhere", "--protocol", released.quick_protocol())
    out = " ".join(released.run(*words).succeeded().out.split())
    assert "With --run, what real training records reach stands beside it" in out


def test_near_copies_are_held_against_the_runs_own_hold_out(
    released: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records from elsewhere may be further from the training part, and then warn of nothing."""
    seen: list[int] = []
    real = reports.scan_copies

    def scan(records: Records, train: Records, test: Records | None, **most: int) -> CopyScan:
        seen.append(0 if test is None else len(test))
        return real(records, train, test, **most)

    monkeypatch.setattr(reports, "scan_copies", scan)
    evaluated(released)
    evaluated(released, "--test", "elsewhere")
    assert seen[0] == seen[1] < 30
