from __future__ import annotations

import hashlib
import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.data.samples import refused, save
from understudy.data.catalog import DATA_VARIABLE, catalog_entry
from understudy.data.entry import PartFacts
from understudy.data.load import load
from understudy.data.published import moments

TRAIN = ("data_batch_1.bin", "data_batch_2.bin")
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (30, 3, 32, 32), np.uint8)
LABELS = np.arange(30) % 10


def batch(*labels: np.ndarray, pixels: np.ndarray) -> bytes:
    """Label bytes in front of the red, green and blue planes of each image."""
    rows = zip(*labels, pixels, strict=True)
    return b"".join(bytes(int(code) for code in codes) + own.tobytes() for *codes, own in rows)


def packed(files: dict[str, bytes], root: str = "cifar-10-batches-bin/") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in {"readme.html": b"<html>", **files}.items():
            member = tarfile.TarInfo(root + name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


FILES = {
    TRAIN[0]: batch(LABELS[:10], pixels=PIXELS[:10]),
    TRAIN[1]: batch(LABELS[10:20], pixels=PIXELS[10:20]),
    "test_batch.bin": batch(LABELS[20:], pixels=PIXELS[20:]),
}
PARTS = {
    "train": PartFacts(20, per_class=(2,) * 10, files=TRAIN),
    "test": PartFacts(10, per_class=(1,) * 10, files=("test_batch.bin",)),
}


@pytest.mark.parametrize("place", ["archive", "folder", "loose"])
def test_the_archive_and_its_files_are_the_same_set(shrunk, place):
    archive = packed(FILES)
    digest = hashlib.md5(archive, usedforsecurity=False).hexdigest()
    folder = shrunk("cifar-10", parts=PARTS, md5={"cifar-10-binary.tar.gz": digest})
    if place == "archive":
        save(folder / "cifar-10-binary.tar.gz", archive)
    else:
        root = folder / "cifar-10-batches-bin" if place == "folder" else folder
        for name, data in FILES.items():
            save(root / name, data)
    dataset = load("cifar-10")
    assert (dataset.part("train").features == PIXELS[:20]).all()
    assert (dataset.part("test").features == PIXELS[20:]).all()
    assert dataset.part("train").labels.tolist() == LABELS[:20].tolist()
    assert dataset.schema.classes[:2] == ("airplane", "automobile")
    assert dataset.part("train").features.flags.writeable
    assert ("identical" in dataset.provenance) == (place == "archive")
    assert load("cifar-10", size=16, channels=1).shape == (1, 16, 16)


def test_fine_labels_are_learnt_and_coarse_ones_kept(shrunk):
    fine, coarse = np.array([3, 99, 7]), np.array([0, 19, 5])
    facts = {"train": PartFacts(3, files=("train.bin",)), "test": PartFacts(3, files=("test.bin",))}
    folder = shrunk("cifar-100", parts=facts)
    for name in ("train.bin", "test.bin"):
        save(folder / "cifar-100-binary" / name, batch(coarse, fine, pixels=PIXELS[:3]))
    dataset = load("cifar-100")
    assert dataset.part("train").labels.tolist() == fine.tolist()
    assert dataset.part("test").attributes["coarse_label"].tolist() == coarse.tolist()
    assert dataset.schema.classes[99] == "worm"
    assert (dataset.part("train").features == PIXELS[:3]).all()
    by_group = load("cifar-100", label="coarse_label")
    assert by_group.part("train").labels.tolist() == coarse.tolist()


def test_declared_classes_may_stand_in_another_order_but_not_be_others(shrunk):
    folder = shrunk("cifar-10", parts=PARTS)
    save(folder / "cifar-10-binary.tar.gz", packed(FILES))
    names = load("cifar-10").schema.classes
    turned = load("cifar-10", classes=names[::-1])
    assert turned.part("train").labels.tolist() == (9 - LABELS[:20]).tolist()
    with refused("'airplane'", "declared classes"):
        load("cifar-10", classes=names[1:])


@pytest.mark.parametrize("python", ["cifar-10-python.tar.gz", "cifar-10-batches-py/data_batch_1"])
def test_the_pickled_version_is_never_opened(shrunk, python):
    folder = shrunk("cifar-10", parts=PARTS)
    save(folder / python, b"cos\nsystem\n(S'false'\ntR.")
    with refused("python version", "pickle", "cifar-10-binary.tar.gz", "cs.toronto.edu"):
        load("cifar-10")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        (TRAIN[1], FILES[TRAIN[1]][:-1], ("30,729 bytes", "30,730")),
        (TRAIN[1], FILES[TRAIN[1]] + b"\0", ("30,731 bytes",)),
        (TRAIN[1], b"", ("0 bytes",)),
        (TRAIN[1], batch(LABELS[:10] + 1, pixels=PIXELS[:10]), ("the code 10", "'label'")),
        (TRAIN[1], batch(LABELS[:10] // 2, pixels=PIXELS[:10]), ("3 images", "'airplane'", "2")),
    ],
)
def test_another_batch_is_refused_by_name(shrunk, name, data, words):
    folder = shrunk("cifar-10", parts=PARTS)
    for file, right in {**FILES, name: data}.items():
        save(folder / file, right if file != name else data)
    counted = "bytes" in words[0]
    with refused(str(folder / name) if counted else str(folder), *words):
        load("cifar-10")


def test_a_damaged_archive_is_refused(shrunk):
    folder = shrunk("cifar-10", parts=PARTS)
    whole = packed(FILES)
    path = save(folder / "cifar-10-binary.tar.gz", whole[: len(whole) // 2])
    with refused(str(path), "truncated or damaged"):
        load("cifar-10")
    save(path, packed({TRAIN[0]: FILES[TRAIN[0]]}))
    with refused(str(path), "lacks data_batch_2.bin and 1 more file"):
        load("cifar-10")


def with_moments(pixels: np.ndarray) -> dict[str, PartFacts]:
    """The parts with the mean and deviation of these training pixels."""
    scaled = pixels / 255
    mean, deviation = scaled.mean((0, 2, 3)), scaled.std((0, 2, 3))
    known = replace(PARTS["train"], mean=tuple(mean), deviation=tuple(deviation))
    return {**PARTS, "train": known}


def test_pixels_in_another_order_are_the_same_set(shrunk):
    folder = shrunk("cifar-10", parts=with_moments(PIXELS[:20]))
    turned = {TRAIN[0]: FILES[TRAIN[1]], TRAIN[1]: FILES[TRAIN[0]]}
    for file, data in {**FILES, **turned}.items():
        save(folder / file, data)
    assert "published mean and deviation" in load("cifar-10").provenance


@pytest.mark.parametrize("changed", [PIXELS[:20] ^ 1, PIXELS[:20, ::-1]], ids=["bits", "bgr"])
def test_other_pixels_of_the_same_length_are_refused(shrunk, changed):
    folder = shrunk("cifar-10", parts=with_moments(changed))
    for file, data in FILES.items():
        save(folder / file, data)
    with refused(str(folder), "other pixels in the train part", "mean by channel", "deviation"):
        load("cifar-10")


def test_moments_are_those_of_all_pixels_by_channel():
    mean, deviation = moments(PIXELS)
    assert np.allclose(mean, (PIXELS / 255).mean((0, 2, 3)), rtol=1e-12)
    assert np.allclose(deviation, (PIXELS / 255).std((0, 2, 3)), rtol=1e-12)


def test_the_catalog_knows_the_moments_of_cifar_10():
    train = catalog_entry("cifar-10").parts["train"]
    assert np.allclose(train.mean, (0.4914, 0.4822, 0.4465), atol=1e-4)
    assert np.allclose(train.deviation, (0.2470, 0.2435, 0.2616), atol=1e-4)


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get(DATA_VARIABLE), reason=f"needs ${DATA_VARIABLE}")
def test_the_published_set_is_whole():
    if not (Path(os.environ[DATA_VARIABLE]) / "cifar-10").is_dir():
        pytest.skip(f"no cifar-10 under ${DATA_VARIABLE}")
    dataset = load("cifar-10")
    assert [len(dataset.part(p)) for p in ("train", "test")] == [50_000, 10_000]
    assert "identical to the published ones" in dataset.provenance
    assert "published mean and deviation" in dataset.provenance
    for part, known in catalog_entry("cifar-10").parts.items():
        records = dataset.part(part)
        pixels = hashlib.sha256(records.features.tobytes()).hexdigest()
        codes = hashlib.sha256(records.labels.astype(np.uint8).tobytes()).hexdigest()
        assert (pixels, codes) == (known.pixels, known.labels)
