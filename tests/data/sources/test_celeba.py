from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from tests.data.samples import encoded, pixels_of, refused, save
from tests.data.sources.test_medmnist import Notes
from tests.data.sources.test_shelf import zipped
from understudy.data.catalog import catalog_entry
from understudy.data.entry import PartFacts
from understudy.data.load import load
from understudy.data.sources import pictures

PARTS = {"train": PartFacts(4), "validation": PartFacts(2), "test": PartFacts(2)}
FILES = [f"{i:06d}.jpg" for i in range(1, 9)]
IN_PART = [0, 2, 1, 0, 0, 2, 1, 0]
PEOPLE = [2880, 17, 5, 2880, 9, 17, 5, 31]
HEADER = "Smiling Male Young"


def face(value: int) -> Image.Image:
    """A smooth picture whose middle square differs from its top and bottom."""
    rows = np.full((218, 178, 3), 255, np.uint8)
    rows[20:198] = np.random.default_rng(value).integers(20, 200, 3)
    return Image.fromarray(rows)


def attributes() -> str:
    rows = [
        f"{name} {-1 if i % 2 else 1:2d} {1 if i < 3 else -1:2d}  1" for i, name in enumerate(FILES)
    ]
    return "\n".join([str(len(FILES)), HEADER, *rows]) + "\n"


def lists() -> dict[str, str]:
    return {
        "list_attr_celeba.txt": attributes(),
        "list_eval_partition.txt": "".join(
            f"{n} {p}\n" for n, p in zip(FILES, IN_PART, strict=True)
        ),
        "identity_CelebA.txt": "".join(f"{n} {p}\n" for n, p in zip(FILES, PEOPLE, strict=True)),
    }


@pytest.fixture
def folder(shrunk):
    """CelebA with eight faces and three attributes."""
    binary = ("no", "yes")
    place = shrunk("celeba", parts=PARTS, others={"Smiling": binary, "Young": binary}, md5={})
    for name, text in lists().items():
        save(place / name, text.encode())
    images = {name: encoded(face(i), "JPEG", quality=95) for i, name in enumerate(FILES)}
    save(place / "img_align_celeba.zip", zipped(images, "img_align_celeba/"))
    return place


@pytest.mark.usefixtures("folder")
def test_parts_attributes_and_the_middle_square():
    dataset = load("celeba")
    assert {p: len(r) for p, r in dataset.parts.items()} == {
        "train": 4,
        "validation": 2,
        "test": 2,
    }
    assert dataset.schema.label == "Male"
    assert dataset.schema.classes == ("no", "yes")
    assert dataset.part("train").labels.tolist() == [1, 0, 0, 0]
    assert dataset.part("test").attributes["Smiling"].tolist() == [0, 0]
    assert dataset.part("train").units is None
    assert dataset.shape == (3, 64, 64)
    own = pixels_of(face(0))[:, 100, 100]
    assert np.abs(dataset.part("train").features[0].astype(int) - own[:, None, None]).max() < 25
    assert load("celeba", size=32, label="Smiling").shape == (3, 32, 32)


@pytest.mark.usefixtures("folder")
def test_a_person_is_a_unit():
    dataset = load("celeba", unit="identity")
    assert dataset.part("train").units.tolist() == ["2880", "2880", "9", "31"]
    assert "identity" not in dataset.schema.names


def test_identities_are_needed_for_units_only(folder):
    (folder / "identity_CelebA.txt").unlink()
    assert len(load("celeba").part("train")) == 4
    with refused(str(folder), "lacks identity_CelebA.txt", "mmlab"):
        load("celeba", unit="identity")


def test_the_layout_of_the_authors_drive(folder):
    for name, where in (
        ("list_attr_celeba.txt", "Anno"),
        ("list_eval_partition.txt", "Eval"),
        ("img_align_celeba.zip", "."),
    ):
        save(folder / where / name, (folder / name).read_bytes())
        if where != ".":
            (folder / name).unlink()
    assert len(load("celeba").part("test")) == 2


def test_all_forty_attributes_are_published():
    entry = catalog_entry("celeba")
    assert len(entry.others) + 1 == 40
    assert sum(known.count for known in entry.parts.values()) == 202_599


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("list_attr_celeba.txt", attributes().replace("Young", "Old"), ("3 attributes",)),
        ("list_attr_celeba.txt", attributes()[:-40], ("announces 8",)),
        ("list_attr_celeba.txt", attributes().replace("8\n", "9\n", 1), ("announces 9", "lists 8")),
        ("list_attr_celeba.txt", attributes()[:-3] + "2\n", ("line 10", "-1 or 1")),
        ("list_attr_celeba.txt", "", ("attributes",)),
        ("list_eval_partition.txt", "000001.jpg 0\n", ("no line for 000002.jpg",)),
        ("list_eval_partition.txt", "000001.jpg\n", ("a file name and a number",)),
        (
            "list_eval_partition.txt",
            "".join(f"{name} 0\n" for name in FILES),
            ("8 images for the train part", "which has 4"),
        ),
    ],
)
def test_another_list_is_refused_by_name(folder, name, text, words):
    path = save(folder / name, text.encode())
    with refused(str(path), *words):
        load("celeba")


def test_another_picture_is_refused_by_name(folder):
    images = {name: encoded(face(i), "JPEG") for i, name in enumerate(FILES)}
    images[FILES[3]] = encoded(face(0).resize((64, 64)), "JPEG")
    save(folder / "img_align_celeba.zip", zipped(images, "img_align_celeba/"))
    with refused("img_align_celeba.zip: img_align_celeba/000004.jpg", "64x64", "178x218"):
        load("celeba")


def test_a_large_set_says_its_memory_and_is_refused_where_it_cannot_fit(folder, monkeypatch):
    monkeypatch.setattr(pictures, "_WORTH_SAYING", 1)
    notes = Notes()
    load("celeba", progress=notes)
    assert "8 images of 3x64x64 take 0.0 GB" in notes.lines[0]
    monkeypatch.setattr(pictures.os, "sysconf", lambda _: 100)
    with refused("celeba", "pass a smaller --size"):
        load("celeba")
    assert folder.is_dir()
