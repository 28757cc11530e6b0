"""Who is protected is said before anything is spent, by the owner's own naming."""

from __future__ import annotations

import shutil

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace
from understudy.data.load import load

PLAN = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "--dry-run")


def test_a_plan_says_per_image_not_per_person(workplace: Workplace) -> None:
    drawing.metadata_folder(workplace / "photos")
    said = workplace.run(*PLAN, "--label", "kind").succeeded()
    assert "per image, not per person" in said.out
    assert "the column 'person' seems to say whose an image is" in said.err
    said = workplace.run(*PLAN, "--label", "kind", "--unit", "person").succeeded()
    assert "protects all images of one person together: per person" in said.out
    assert "whose an image is" not in said.err


def test_values_that_repeat_say_nothing(workplace: Workplace) -> None:
    """Two columns alike but for their names: only the owner's word for persons is pointed out."""
    drawing.metadata_folder(workplace / "photos")
    path = workplace / "photos/metadata.csv"
    path.write_text(
        path.read_text().replace("person\n", "film\n", 1).replace("person\r", "film\r", 1)
    )
    said = workplace.run(*PLAN, "--label", "kind").succeeded()
    assert "whose an image is" not in said.err


def test_a_column_that_can_be_no_attribute_is_pointed_out_too(workplace: Workplace) -> None:
    drawing.metadata_folder(workplace / "photos")
    path = workplace / "photos/metadata.csv"
    path.write_text(path.read_text().replace("person-3", ""))
    assert load(workplace / "photos", label="kind").person_columns == ("person",)


def test_folders_in_class_folders_are_pointed_out(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    assert "folders of their own" not in workplace.run(*PLAN).succeeded().err
    inner = workplace / "photos/cross/patient-1"
    inner.mkdir()
    shutil.move(workplace / "photos/cross/0000.png", inner)
    said = workplace.run(*PLAN).succeeded().err
    assert "folders of their own" in said
    assert "metadata.csv" in said


def test_duplicates_that_were_dropped_are_said_to_the_owner_alone(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    for i in range(8):
        shutil.copy(
            workplace / f"photos/cross/000{2 * (i % 4)}.png", workplace / f"photos/cross/c{i}.png"
        )
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "out")
    said = workplace.run(*words).succeeded()
    assert "8 images dropped as exact duplicates" in said.err
    for path in [*(workplace / "out").glob("*.*"), workplace / "runs/out/report-public.html"]:
        assert b"duplicates of" not in path.read_bytes()
