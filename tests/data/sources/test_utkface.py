from __future__ import annotations

import os

import pytest

from tests.data.samples import encoded, picture, refused, save
from tests.data.sources.test_shelf import zipped
from understudy.data.catalog import DATA_VARIABLE
from understudy.data.dedup import shared_between
from understudy.data.entry import PartFacts
from understudy.data.load import load
from understudy.data.sources.utkface import age_group, part_of

NAMES = [f"{age}_{age % 2}_{age % 5}_2017{age:013d}.jpg.chip.jpg" for age in range(1, 41)]
MALFORMED = "39_1_20170116174525125.jpg.chip.jpg"


def raw_files(side: int = 64) -> dict[str, bytes]:
    files = {name: encoded(picture(i, (side, side)), "JPEG") for i, name in enumerate(NAMES)}
    copy = "99_0_0_20170000000000099.jpg.chip.jpg"
    return {**files, MALFORMED: files[NAMES[0]], copy: files[NAMES[3]]}


def parts() -> dict[str, PartFacts]:
    counts = {"train": [0, 0], "test": [0, 0]}
    for name in NAMES:
        counts[part_of(name)][int(name.split("_")[1])] += 1
    return {part: PartFacts(sum(c), per_class=tuple(c)) for part, c in counts.items()}


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_names_give_attributes_and_parts(shrunk, form):
    folder = shrunk("utkface", parts=parts())
    if form == "zip":
        save(folder / "UTKFace.zip", zipped(raw_files(), "UTKFace/"))
    else:
        for name, data in raw_files().items():
            save(folder / "UTKFace" / name, data)
    dataset = load("utkface")
    assert dataset.shape == (3, 64, 64)
    assert len(dataset.part("train")) + len(dataset.part("test")) == len(NAMES)
    assert dataset.schema.names == ("gender", "age", "race")
    tested = [name for name in sorted(NAMES) if part_of(name) == "test"]
    test = dataset.part("test")
    assert test.attributes["gender"].tolist() == [int(n.split("_")[1]) for n in tested]
    assert test.attributes["race"].tolist() == [int(n.split("_")[2]) for n in tested]
    assert test.attributes["age"].tolist() == [age_group(int(n.split("_")[0])) for n in tested]
    assert shared_between(dataset.parts) == {}


def test_the_original_size_is_reduced(shrunk):
    folder = shrunk("utkface", parts=parts())
    save(folder / "UTKFace.zip", zipped(raw_files(200), "UTKFace/"))
    assert load("utkface").shape == (3, 64, 64)
    assert load("utkface", size=32).shape == (3, 32, 32)


def test_missing_or_other_files_are_refused(shrunk):
    folder = shrunk("utkface", parts=parts())
    with refused("UTKFace.tar.gz", "susanqq"):
        load("utkface")
    save(folder / "UTKFace.zip", zipped({"cat.jpg": b"x"}, "UTKFace/"))
    with refused("UTKFace.zip", "<age>_<gender>_<race>"):
        load("utkface")
    files = raw_files()
    del files[NAMES[7]]
    save(folder / "UTKFace.zip", zipped(files, "UTKFace/"))
    with refused("UTKFace.zip", "holds"):
        load("utkface")


@pytest.mark.parametrize(("age", "group"), [(0, 0), (2, 0), (3, 1), (9, 1), (10, 2), (70, 8)])
def test_ages_fall_into_the_groups_of_fairface(age, group):
    assert age_group(age) == group


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get(DATA_VARIABLE), reason=f"needs ${DATA_VARIABLE}")
def test_the_published_set_is_whole():
    dataset = load("utkface", size=8)
    assert [len(dataset.part(p)) for p in ("train", "test")] == [19_716, 3_599]
