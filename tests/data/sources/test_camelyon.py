from __future__ import annotations

import gzip

import pytest

from tests.data.samples import encoded, picture, refused, save
from tests.data.sources.test_shelf import tarred
from understudy.data.catalog import catalog_entry
from understudy.data.entry import PartFacts
from understudy.data.load import load

PARTS = {
    "train": PartFacts(2),
    "test": PartFacts(2),
    "validation": PartFacts(1),
    "wilds-test": PartFacts(1),
}
HEADER = ",patient,node,x_coord,y_coord,tumor,slide,center,split"
ROWS = (
    "0,004,4,3328,21792,1,0,0,0",
    "1,004,4,3200,22272,0,0,0,1",
    "2,010,1,1000,2000,0,5,1,0",
    "3,010,1,1096,2000,1,5,1,1",
    "4,051,2,640,960,1,30,2,0",
    "5,061,0,512,512,0,35,3,0",
)


def metadata(*rows: str) -> bytes:
    return "\n".join((HEADER, *rows)).encode() + b"\n"


def raw_files() -> dict[str, bytes]:
    files = {"metadata.csv": metadata(*ROWS), "RELEASE_v1.0.txt": b""}
    for i, row in enumerate(ROWS):
        _, patient, node, x, y, *_ = row.split(",")
        slide = f"patient_{patient}_node_{node}"
        # WILDS wrote its patches with an opaque alpha channel.
        patch = encoded(picture(i, (96, 96)).convert("RGBA"))
        files[f"patches/{slide}/patch_{slide}_x_{x}_y_{y}.png"] = patch
    return files


def store(folder, files: dict[str, bytes], form: str = "folder") -> None:
    if form == "tar.gz":
        data = gzip.compress(tarred(files, "camelyon17_v1.0/"))
        save(folder / "camelyon17_v1.0.tar.gz", data)
        return
    for name, data in files.items():
        save(folder / ("camelyon17_v1.0" if form == "nested" else "") / name, data)


@pytest.mark.parametrize("form", ["folder", "nested", "tar.gz"])
def test_parts_by_hospital_and_split(shrunk, form):
    store(shrunk("camelyon", parts=PARTS), raw_files(), form)
    dataset = load("camelyon", unit="patient")
    assert dataset.shape == (3, 32, 32)
    units = {p: r.units.tolist() for p, r in dataset.parts.items()}
    assert units == {
        "train": ["004", "061"],
        "test": ["010", "010"],
        "validation": ["004"],
        "wilds-test": ["051"],
    }
    assert dataset.part("train").labels.tolist() == [1, 0]
    assert dataset.schema.classes == ("normal", "tumour")
    assert dataset.part("train").attributes["hospital"].tolist() == [0, 3]
    assert "patient" not in load("camelyon").schema.names
    assert load("camelyon", size=96).shape == (3, 96, 96)


def test_the_published_counts():
    parts = catalog_entry("camelyon").parts
    assert sum(known.count for known in parts.values()) == 455_954
    # DPImageBench: 269,538 to learn from and 32,898 to select with are the train part of WILDS.
    assert parts["train"].count == 269_538 + 32_898


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (metadata(*ROWS[:-1]), ("1 images for the train part", "which has 2")),
        (metadata(*ROWS, ROWS[0]), ("3 images for the train part",)),
        (metadata(*ROWS[:-1], "5,061,0,512"), ("line 7", "whole numbers")),
        (metadata(*ROWS[:-1], "5,../x,0,512,512,0,35,3,0"), ("line 7", "whole numbers")),
        (metadata(*ROWS[:-1], "5,061,0,512,512,2,35,3,0"), ("the code 2", "'tumour'")),
        (b"file_name,label\na.png,1\n", ("no column 'patient'", "WILDS")),
        (b"", ("no column 'patient'",)),
        (b'"a', ("line 1", "not valid CSV")),
    ],
)
def test_another_list_is_refused_by_name(shrunk, data, words):
    folder = shrunk("camelyon", parts=PARTS)
    store(folder, {**raw_files(), "metadata.csv": data})
    with refused(str(folder / "metadata.csv"), *words):
        load("camelyon")


def test_a_missing_patch_is_named(shrunk):
    folder = shrunk("camelyon", parts=PARTS)
    files = {n: d for n, d in raw_files().items() if "patient_051" not in n}
    store(folder, files)
    with refused("lacks patches/patient_051_node_2/patch_patient_051_node_2_x_640_y_960.png"):
        load("camelyon")
