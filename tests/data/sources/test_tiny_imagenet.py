from __future__ import annotations

import gzip
import lzma
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.data.samples import encoded, picture, refused, save
from tests.data.sources.test_shelf import tarred, zipped
from understudy.data import catalog as catalog_module
from understudy.data.catalog import DATA_VARIABLE, catalog_entry
from understudy.data.entry import PartFacts
from understudy.data.load import load

SHARED = os.environ.get(DATA_VARIABLE)
WNIDS = ("n02124075", "n01443537")
PARTS = {"train": PartFacts(6, per_class=(3, 3)), "test": PartFacts(4, per_class=(2, 2))}
WORDS = "n01443537\tgoldfish, Carassius auratus\nn02124075\tEgyptian cat\nn09999999\tother\n"


def raw_files() -> dict[str, bytes]:
    """Two classes in the standard layout; one train picture is grey, as some are upstream."""
    files: dict[str, bytes] = {"wnids.txt": "\n".join(WNIDS).encode(), "words.txt": WORDS.encode()}
    for c, wnid in enumerate(WNIDS):
        files[f"train/{wnid}/{wnid}_boxes.txt"] = b""
        for k in range(3):
            mode = "L" if (c, k) == (1, 2) else "RGB"
            image = picture(10 * c + k, (64, 64), mode)
            files[f"train/{wnid}/images/{wnid}_{k}.JPEG"] = encoded(image, "JPEG")
    lines = []
    for k in range(4):
        files[f"val/images/val_{k}.JPEG"] = encoded(picture(100 + k, (64, 64)), "JPEG")
        lines.append(f"val_{k}.JPEG\t{WNIDS[k % 2]}\t0\t32\t44\t62\n")
    files["val/val_annotations.txt"] = "".join(lines).encode()
    files["test/images/test_0.JPEG"] = b"not labelled, never read"
    return files


def store(folder: Path, files: dict[str, bytes], form: str) -> None:
    root = "tiny-imagenet-200/"
    if form == "folder":
        for name, data in files.items():
            save(folder / root / name, data)
    elif form == "zip":
        save(folder / "tiny-imagenet-200.zip", zipped(files, root))
    elif form == "tar.gz":
        save(folder / "tiny-imagenet-200.tar.gz", gzip.compress(tarred(files, root)))
    else:
        beside = {n: d for n, d in files.items() if n.endswith(".txt")}
        for name, data in beside.items():
            save(folder / Path(name).name.replace("words.", "words_200."), data)
        rest = {n: d for n, d in files.items() if n not in beside}
        save(folder / "tiny_imagenet.tar.xz", lzma.compress(tarred(rest)))


@pytest.mark.parametrize("form", ["folder", "zip", "tar.gz", "tar.xz"])
def test_every_form_gives_the_same_records(shrunk, form):
    store(shrunk("tiny-imagenet", parts=PARTS), raw_files(), form)
    dataset = load("tiny-imagenet")
    assert dataset.schema.classes == ("goldfish", "Egyptian cat")
    train, test = dataset.part("train"), dataset.part("test")
    assert train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert test.labels.tolist() == [1, 0, 1, 0]
    assert train.shape == (3, 64, 64)
    grey = train.features[2]
    assert (grey[0] == grey[1]).all()
    assert not (train.features[0][0] == train.features[0][1]).all()
    assert load("tiny-imagenet", size=32).shape == (3, 32, 32)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("wnids.txt", b"n02124075", ("wnids.txt", "1 classes", "has 2")),
        ("val/val_annotations.txt", b"val_0.JPEG\tn0\n", ("val_annotations.txt line 1",)),
        ("val/val_annotations.txt", b"val_0.JPEG\tn02124075\n", ("1 images", "test part", "4")),
        ("words.txt", b"\xff\xfe", ("words.txt", "UTF-8")),
        ("val/images/val_1.JPEG", b"", ("val_1.JPEG", "empty")),
        ("val/images/val_1.JPEG", encoded(picture(1, (32, 32)), "JPEG"), ("val_1", "64x64")),
    ],
)
def test_another_file_is_refused_by_name(shrunk, name, data, words):
    store(shrunk("tiny-imagenet", parts=PARTS), {**raw_files(), name: data}, "zip")
    with refused(*words):
        load("tiny-imagenet")


def test_a_class_that_is_not_there_is_named(shrunk):
    files = {n: d for n, d in raw_files().items() if "n01443537_" not in n}
    store(shrunk("tiny-imagenet", parts=PARTS), files, "folder")
    with refused("lacks train/n01443537/images/n01443537_0.JPEG and 2 more"):
        load("tiny-imagenet")


@pytest.mark.data
@pytest.mark.skipif(SHARED is None, reason=f"needs the raw files under ${DATA_VARIABLE}")
def test_the_real_tiny_imagenet_of_one_class(monkeypatch):
    """The first class only: the archive is read no further than that."""
    if not (Path(str(SHARED)) / "tiny-imagenet-32").is_dir():
        pytest.skip(f"no tiny-imagenet-32 under ${DATA_VARIABLE}")
    one = PartFacts(500, per_class=(500, *(0,) * 199))
    entry = replace(catalog_entry("tiny-imagenet-32"), parts={"train": one})
    monkeypatch.setattr(catalog_module, "catalog", lambda: {entry.name: entry})
    dataset = load("tiny-imagenet-32")
    assert dataset.part("train").features.shape == (500, 3, 32, 32)
    assert len(dataset.schema.classes) == 200
    assert dataset.schema.classes[0] == "goldfish"
    assert set(dataset.part("train").labels.tolist()) == {0}
    assert 60 < np.mean(dataset.part("train").features) < 200
