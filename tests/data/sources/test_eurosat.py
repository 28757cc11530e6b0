from __future__ import annotations

from collections import Counter

import pytest

from tests.data.samples import encoded, picture, refused, save
from tests.data.sources.test_shelf import zipped
from understudy.data.catalog import catalog_entry
from understudy.data.entry import PartFacts
from understudy.data.load import load
from understudy.data.sources.eurosat import part_of

CLASSES = ("Forest", "River")
NAMES = [f"{name}_{k}.jpg" for name in CLASSES for k in range(1, 13)]
IN_TEST = [name for name in NAMES if part_of(name) == "test"]


def parts() -> dict[str, PartFacts]:
    """What the hash makes of twelve images of each class."""
    tested = Counter(name.split("_")[0] for name in IN_TEST)
    test = tuple(tested[name] for name in CLASSES)
    train = tuple(12 - count for count in test)
    return {
        "train": PartFacts(sum(train), per_class=train),
        "test": PartFacts(sum(test), per_class=test),
    }


def raw_files() -> dict[str, bytes]:
    files = {
        f"{name.split('_')[0]}/{name}": encoded(picture(i, (64, 64)), "JPEG")
        for i, name in enumerate(NAMES)
    }
    return {**files, "Forest/Thumbs.db": b"litter"}


def test_the_whole_set_divides_as_the_catalog_says():
    entry = catalog_entry("eurosat")
    for code, name in enumerate(entry.classes):
        counts = [known.per_class[code] for known in entry.parts.values()]
        found = Counter(part_of(f"{name}_{k}.jpg") for k in range(1, sum(counts) + 1))
        assert [found["train"], found["test"]] == counts
    assert sum(sum(known.per_class) for known in entry.parts.values()) == 27_000


@pytest.mark.parametrize("form", ["2750", "EuroSAT_RGB", "zip"])
def test_folder_and_zip_give_the_same_parts(shrunk, form):
    folder = shrunk("eurosat", parts=parts(), classes=CLASSES)
    if form == "zip":
        save(folder / "EuroSAT.zip", zipped(raw_files(), "2750/"))
    else:
        for name, data in raw_files().items():
            save(folder / form / name, data)
    dataset = load("eurosat")
    assert len(dataset.part("train")) + len(dataset.part("test")) == 24
    assert len(dataset.part("test")) == len(IN_TEST) > 0
    assert dataset.schema.classes == CLASSES
    wanted = [CLASSES.index(name.split("_")[0]) for name in IN_TEST]
    assert dataset.part("test").labels.tolist() == wanted
    assert "hash" in str(dataset.split)
    assert "stratified" not in str(dataset.split)


def test_a_missing_image_and_one_of_another_size_are_named(shrunk):
    folder = shrunk("eurosat", parts=parts(), classes=CLASSES)
    files = raw_files()
    del files["River/River_3.jpg"]
    save(folder / "EuroSAT.zip", zipped(files, "2750/"))
    with refused("EuroSAT.zip", "lacks River/River_3.jpg"):
        load("eurosat")
    files["River/River_3.jpg"] = encoded(picture(1, (28, 28)), "JPEG")
    save(folder / "EuroSAT.zip", zipped(files, "2750/"))
    with refused("River_3.jpg", "28x28", "64x64"):
        load("eurosat")
