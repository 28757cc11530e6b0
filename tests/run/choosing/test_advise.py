"""Advice for data: what can be used, which to take, and the command; nothing is spent."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests import drawing
from tests.contract.toys.hidden_attribute import HiddenAttribute
from tests.workplace import Workplace
from understudy.errors import MixedSizesError, UserError
from understudy.methods.registry import method_names
from understudy.progress import Silent
from understudy.run.choosing import candidates
from understudy.run.choosing.advise import WIDTH, advise
from understudy.run.choosing.candidates import find_candidates
from understudy.run.choosing.settle import rates_of
from understudy.run.config import RunConfig
from understudy.run.listing import Listing
from understudy.run.material import gather
from understudy.run.prepare import form_of

FOR_ALL = ("methods", "--for")


def advice(source: Path | str, **more: Any) -> Listing:
    given = {"epsilon": 10.0, "device_kind": "cpu", **more}
    return advise(RunConfig(str(source), **given), Silent())


def told(found: Listing) -> str:
    """All of its words, however the lines are broken."""
    return " ".join(found.text().split())


def recommended(found: Listing) -> tuple[str, list[str]]:
    """The method, and the command that follows."""
    (line,) = [line for line in found.after if line.startswith("Recommended: ")]
    (command,) = [line for line in found.after if line.startswith("  understudy ")]
    return line.removeprefix("Recommended: ").partition(",")[0], shlex.split(command)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return drawing.class_folder(tmp_path / "photos", count=400)


def test_the_form_of_the_data_stands_first(photos: Path) -> None:
    words = told(advice(photos, unit=None, epsilon=2.5))
    assert "400 records of 1x8x8, 2 classes; 340 to learn from; epsilon 2.5;" in words
    assert "protects each image by itself: per image, not per person" in words


def test_units_are_counted_where_they_are_named(tmp_path: Path) -> None:
    people = drawing.metadata_folder(tmp_path / "people", count=400, per_person=2)
    words = told(advice(people, label="kind", unit="person"))
    assert "200 units (each one person) of 1x8x8, 2 classes; 170 to learn from" in words
    assert "per person" in words


def test_the_first_row_is_the_one_that_a_run_takes(photos: Path) -> None:
    found = advice(photos)
    name, _ = recommended(found)
    assert name == found.rows[0][1]
    assert [row[0] for row in found.rows] == [str(n) for n in range(1, len(found.rows) + 1)]
    config = RunConfig(str(photos), epsilon=10.0, device_kind="cpu")
    form = form_of(config, gather(config, None, Silent(), split_key=b"k" * 32))
    assert find_candidates(config, form, 600.0, rates_of(config)).recommended()[0].name == name


def test_every_method_is_a_row_or_has_a_reason(photos: Path) -> None:
    found = advice(photos)
    words = told(found)
    for name in method_names():
        is_a_row = any(row[1] == name for row in found.rows)
        assert is_a_row != (f"{name} cannot be used as it is: " in words)
    assert "pdp-diffusion cannot be used as it is: needs --public DATA." in words


def test_with_public_images_another_is_recommended(photos: Path) -> None:
    found = advice("digits", public=(str(photos),))
    name, command = recommended(found)
    assert name == "pdp-diffusion"
    assert command[-2:] == ["--device-kind", "cpu"]
    assert command[command.index("--public") :][:2] == ["--public", str(photos)]
    assert "dp-merf cannot be used as it is: takes no public images." in told(found)


def test_the_command_repeats_what_was_asked_and_runs(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos", count=400)
    asked = ("--epsilon", "3", "--size", "16", "--count", "390", "--channels", "1")
    asked = (*asked, "--time", "90s", "--device-kind", "cpu")
    shown = workplace.run(*FOR_ALL, "photos", *asked, "--json").succeeded().json()
    (line,) = [line for line in shown["notes"] if line.startswith("  understudy synthesize")]
    command = shlex.split(line)[1:]
    assert command[:2] == ["synthesize", "photos"]
    for i in range(0, len(asked), 2):
        assert command[command.index(asked[i]) + 1] == asked[i + 1]
    seen = workplace.run(*command, "--dry-run", "--json").succeeded().json()
    assert seen["method"] == shown["rows"][0]["method"]
    assert seen["count"] == 390


def test_what_is_usual_is_not_repeated(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "a folder", count=400)
    found = workplace.run(*FOR_ALL, "a folder").succeeded()
    assert "  understudy synthesize 'a folder' --epsilon 10\n" in found.out


@pytest.mark.parametrize("kind", ["cpu", "h200", None])
def test_it_fits_into_eighty_columns(photos: Path, kind: str | None) -> None:
    assert WIDTH == 80
    for source in (photos, "digits"):
        found = advice(source, device_kind=kind, device="cpu", time=90.0)
        own = [line for line in found.text().splitlines() if not line.startswith("  understudy")]
        assert max(map(len, own)) <= WIDTH


def test_images_of_several_sizes_are_looked_at_in_one(photos: Path) -> None:
    Image.new("L", (40, 50)).save(photos / "cross" / "larger.png")
    config = RunConfig(str(photos), epsilon=10.0)
    with pytest.raises(MixedSizesError):
        gather(config, None, Silent(), split_key=b"k" * 32)
    found = advice(photos)
    assert "1x8x8" in told(found)
    assert "the images differ in size, so this is for --size 8." in told(found)
    assert recommended(found)[1][5:7] == ["--size", "8"], "the size that the refusal names"
    asked = advice(photos, size=16)
    assert "1x16x16" in told(asked)
    assert "differ in size" not in told(asked)


def test_images_too_large_for_any_method_are_looked_at_smaller(tmp_path: Path) -> None:
    for i in range(40):
        path = tmp_path / "scans" / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((90, 80), 50 + i).save(path)
    found = advice(tmp_path / "scans")
    assert "1x32x32" in told(found)
    assert "methods take at most 64 pixels a side, so this is for --size 32" in told(found)
    assert recommended(found)[0]
    with_size = advice(tmp_path / "scans", size=70)
    assert not with_size.rows
    assert "No method can be used as it is." in told(with_size)
    assert "Recommended" not in told(with_size)


def test_what_cannot_be_made_one_is_still_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        advice(tmp_path / "nowhere")
    people = drawing.metadata_folder(tmp_path / "people")
    with pytest.raises(UserError, match="--label"):
        advice(people)


def test_nothing_is_spent_or_written(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos", count=60)
    before = workplace.tree()
    workplace.run(*FOR_ALL, "photos", "--unit", "label", "--label", "label").refused("--unit")
    workplace.run(*FOR_ALL, "photos").succeeded()
    assert workplace.tree() == before
    assert not workplace.home.exists()


@pytest.mark.parametrize("claim", ["empirical", "local"])
def test_only_a_central_claim_is_ever_recommended(
    photos: Path, monkeypatch: pytest.MonkeyPatch, claim: str
) -> None:
    """Whoever names no method has not agreed to less than an epsilon over records."""
    toy = "tests.contract.toys.hidden_attribute:HiddenAttribute"
    monkeypatch.setattr(
        HiddenAttribute, "info", replace(HiddenAttribute.info, hides=False, claim=claim)
    )
    monkeypatch.setattr(candidates, "method_names", lambda: (toy,))
    assert f"its claim is {claim}; name it by --method" in told(advice(photos))


def test_a_method_that_cannot_tell_its_time_says_so(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = "tests.contract.toys.hidden_attribute:HiddenAttribute"
    told_by = replace(HiddenAttribute.info, hides=False)
    monkeypatch.setattr(HiddenAttribute, "info", told_by)
    monkeypatch.setattr(HiddenAttribute, "spend", lambda *_: lambda _: ())
    monkeypatch.setattr(candidates, "method_names", lambda: (toy,))
    (row,) = [row for row in advice(photos).rows if row[1] == toy]
    assert row[-2:] == ("unknown", "unknown")


def test_what_takes_longer_than_there_is_time_is_not_recommended(photos: Path) -> None:
    first, _ = recommended(advice(photos, channels=3, size=64))
    found = advice(photos, channels=3, size=64, time=3.0)
    name, _ = recommended(found)
    assert name != first == found.rows[0][1]
    assert "those before it cannot be used or take longer" in told(found)


def test_for_another_machine_it_says_where_to_run_it(photos: Path) -> None:
    found = advice(photos, device_kind="h200")
    assert "to be run on that machine" in told(found)
    assert found.headings[-1] == "an H200", "and not twice"
    assert "to be run on that machine" not in told(advice(photos, device_kind=None, device="cpu"))
