from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.data.samples import encoded, picture, refused, save
from tests.data.sources.test_shelf import zipped
from understudy.data.catalog import DATA_VARIABLE
from understudy.data.entry import PartFacts
from understudy.data.load import load

HEADER = "file,age,gender,race,service_test\n"
ROWS = {
    "train": [
        "train/1.jpg,50-59,Male,East Asian,TRUE",
        "train/2.jpg,more than 70,Female,Latino_Hispanic,FALSE",
        "train/10.jpg,0-2,Female,White,FALSE",
    ],
    "val": ["val/1.jpg,3-9,Male,Middle Eastern,FALSE", "val/2.jpg,20-29,Female,Black,TRUE"],
}
PARTS = {"train": PartFacts(7, excerpts=(3,)), "test": PartFacts(2)}
ALL_NAMES = [row.split(",")[0] for rows in ROWS.values() for row in rows]


def write_lists(folder: Path, rows: dict[str, list[str]] = ROWS, header: str = HEADER) -> None:
    for part, lines in rows.items():
        text = header + "".join(f"{line}\n" for line in lines)
        save(folder / f"fairface_label_{part}.csv", text.encode())


def images(side: int = 64) -> dict[str, bytes]:
    return {
        name: encoded(picture(i, (side, side)), "JPEG", quality=95)
        for i, name in enumerate(ALL_NAMES)
    }


def write_images(folder: Path, form: str, side: int = 64) -> None:
    if form == "zip":
        save(folder / "fairface-img-margin025-trainval.zip", zipped(images(side)))
        return
    root = folder / "fairface-img-margin025-trainval" if form == "unpacked" else folder
    for name, data in images(side).items():
        save(root / name, data)


@pytest.mark.parametrize("form", ["zip", "unpacked", "loose"])
def test_lists_give_parts_and_attributes(shrunk, form):
    folder = shrunk("fairface", parts=PARTS)
    write_lists(folder)
    write_images(folder, form)
    dataset = load("fairface")
    assert dataset.shape == (3, 64, 64)
    assert {part: len(records) for part, records in dataset.parts.items()} == {
        "train": 3,
        "test": 2,
    }
    assert dataset.schema.names == ("gender", "age", "race")
    assert dataset.schema.label == "gender"
    train = dataset.part("train").attributes
    assert train["gender"].tolist() == [0, 1, 1]
    assert [dataset.schema.attribute("age").classes[c] for c in train["age"]] == [
        "50-59",
        "70+",
        "0-2",
    ]
    assert [dataset.schema.attribute("race").classes[c] for c in train["race"]] == [
        "east asian",
        "latino hispanic",
        "white",
    ]
    assert dataset.part("test").attributes["race"].tolist() == [6, 1]
    assert "an excerpt: 3 of 7 train images" in dataset.provenance
    assert "test images" not in dataset.provenance


def test_an_archive_in_the_order_of_the_lists_gives_each_face_its_own_row(shrunk):
    folder = shrunk("fairface", parts=PARTS)
    write_lists(folder)
    shuffled = dict(reversed(images().items()))
    save(folder / "fairface_64.zip", zipped(shuffled))
    archived = load("fairface").part("train").features
    (folder / "fairface_64.zip").unlink()
    write_images(folder, "loose")
    assert np.array_equal(load("fairface").part("train").features, archived)


def test_the_authors_size_is_reduced(shrunk):
    folder = shrunk("fairface", parts=PARTS)
    write_lists(folder)
    write_images(folder, "loose", side=224)
    assert load("fairface").shape == (3, 64, 64)
    assert load("fairface", size=32, channels=1).shape == (1, 32, 32)


def test_missing_files_are_named(shrunk):
    folder = shrunk("fairface", parts=PARTS)
    with refused(str(folder), "train and val", "fairface_label_val.csv", "github.com/joojs"):
        load("fairface")
    write_lists(folder)
    with refused("lacks the folders train and val"):
        load("fairface")
    save(folder / "fairface_64.zip", zipped({"train/1.jpg": images()["train/1.jpg"]}))
    with refused("fairface_64.zip", "lacks train/2.jpg and 3 more files"):
        load("fairface")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("train/2.jpg,03-Sep,Male,White,TRUE", ("line 3", "age '03-Sep'", "spreadsheet")),
        ("train/2.jpg,3-9,male?,White,TRUE", ("line 3", "gender 'male?'")),
        ("train/2.jpg,3-9,Male,Martian,TRUE", ("line 3", "race 'Martian'")),
        ("train/2.jpg,3-9,Male", ("line 3", "5 values, not 3")),
        ("../val/2.jpg,3-9,Male,White,TRUE", ("line 3", "'../val/2.jpg'", "train/NUMBER.jpg")),
        ("val/2.jpg,3-9,Male,White,TRUE", ("line 3", "'val/2.jpg'")),
        ("train/1.jpg,3-9,Male,White,TRUE", ("line 3", "train/1.jpg a second time")),
    ],
)
def test_a_list_that_was_changed_is_refused_by_line(shrunk, row, words):
    folder = shrunk("fairface", parts=PARTS)
    write_images(folder, "loose")
    write_lists(folder, {**ROWS, "train": [ROWS["train"][0], row, ROWS["train"][2]]})
    with refused("fairface_label_train.csv", *words):
        load("fairface")


def test_another_header_or_number_is_refused(shrunk):
    folder = shrunk("fairface", parts=PARTS)
    write_images(folder, "loose")
    write_lists(folder, header="img,age\n")
    with refused("fairface_label_train.csv", "'img,age'", "file,age,gender,race,service_test"):
        load("fairface")
    write_lists(folder, {**ROWS, "train": ROWS["train"][:2]})
    with refused("2 images", "train part", "which has 7 (or 3 in an excerpt)"):
        load("fairface")


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get(DATA_VARIABLE), reason=f"needs ${DATA_VARIABLE}")
def test_the_excerpt_is_whole_and_says_what_its_parts_share():
    from tests.data.samples import Said

    if not (Path(os.environ[DATA_VARIABLE]) / "fairface").is_dir():
        pytest.skip(f"no fairface under ${DATA_VARIABLE}")
    said = Said()
    dataset = load("fairface", size=16, progress=said)
    assert [len(dataset.part(p)) for p in ("train", "test")] == [40_000, 5_000]
    assert np.bincount(dataset.part("test").labels).tolist() == [2633, 2367]
    assert "40,000 of 86,744 train images, 5,000 of 10,954 test images" in dataset.provenance
    assert any("in the train part too: 6;" in line for line in said.lines)
