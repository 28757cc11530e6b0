"""Pictures of data that may not be shown stand in no report for others, whatever the claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace
from understudy.data.catalog import DATA_VARIABLE
from understudy.run.advice import list_datasets
from understudy.run.config import RunConfig
from understudy.run.reports import may_be_shown, terms_warning

PICTURE = "data:image/png;base64,"


def synthesized(place: Workplace, source: str) -> str:
    """A released run's words on standard error."""
    drawing.class_folder(place / source, 40)
    words = ("--epsilon", "1", "--count", "40", "-o", "out")
    return place.run("synthesize", source, *SMALL_MERF, *words).succeeded().err


def pages(place: Workplace) -> tuple[str, str]:
    run = place / "runs/out"
    return (run / "report.html").read_text(), (run / "report-public.html").read_text()


def test_an_owners_own_pictures_are_in_both_reports(workplace: Workplace) -> None:
    told = synthesized(workplace, "photos")
    for page in pages(workplace):
        assert PICTURE in page
    assert (workplace / "out/contact-sheet.png").exists()
    assert "not to be shown" not in told


def test_faces_are_in_the_owners_report_alone(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(workplace / "shelf"))
    told = synthesized(workplace, "shelf/utkface")
    owners, others = pages(workplace)
    assert PICTURE in owners
    assert PICTURE not in others
    assert (workplace / "runs/out/contact-sheet.png").exists()
    assert not (workplace / "out/contact-sheet.png").exists()
    assert "No pictures are shown in this report." in others
    assert "warning: shelf/utkface is not to be shown to others, because it shows real" in told


@pytest.mark.parametrize("epsilon", [None, 1.0])
@pytest.mark.parametrize("name", ["utkface", "fairface", "celeba"])
def test_no_claim_lets_them_out(name: str, epsilon: float | None) -> None:
    config = RunConfig(name, "dp-merf", epsilon)
    assert not may_be_shown(config)
    assert "shareable report holds no pictures" in str(terms_warning(config))


def test_public_data_count_too_for_nothing_bounds_what_is_kept_of_them() -> None:
    config = RunConfig("digits", "pdp-diffusion", 1.0, public=("images=celeba",))
    assert not may_be_shown(config)
    assert str(terms_warning(config)).startswith("warning: celeba is not to be shown")
    assert may_be_shown(RunConfig("digits", "pdp-diffusion", 1.0, public=("mnist",)))


def test_a_path_to_the_files_is_no_way_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "celeba").mkdir()
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    assert not may_be_shown(RunConfig(str(tmp_path / "celeba"), "dp-merf", 1.0))


def test_the_list_of_datasets_says_both() -> None:
    listing = list_datasets()
    rows = {row["dataset"]: row for row in listing.to_json()["rows"]}
    for name in ("utkface", "fairface", "celeba"):
        assert (rows[name]["pictures shown"], rows[name]["models shipped"]) == ("no", "no")
    assert (rows["digits"]["pictures shown"], rows["digits"]["models shipped"]) == ("yes", "yes")
    assert "fairface: in the excerpt" in listing.text()
