from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from tests.data.samples import refused, save
from understudy.data.load import load
from understudy.data.sources.idx import read_idx

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 4, 3), np.uint8)
LABELS = np.array([3, 1, 3, 1, 2, 2], np.uint8)


def idx(array: np.ndarray) -> bytes:
    head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


@pytest.mark.parametrize("zipped", [True, False])
def test_round_trip(tmp_path, zipped):
    for name, array in (
        ("train-images-idx3-ubyte", IMAGES),
        ("train-labels-idx1-ubyte", LABELS),
        ("t10k-images-idx3-ubyte", IMAGES[::-1]),
        ("t10k-labels-idx1-ubyte", LABELS[::-1]),
    ):
        data = gzip.compress(idx(array)) if zipped else idx(array)
        save(tmp_path / (f"{name}.gz" if zipped else name), data)
    dataset = load(tmp_path)
    assert (dataset.part("train").features[:, 0] == IMAGES).all()
    assert (dataset.part("test").features[:, 0] == IMAGES[::-1]).all()
    assert dataset.part("train").features.flags.writeable
    assert dataset.schema.classes == ("1", "2", "3")
    assert dataset.part("train").labels.tolist() == [2, 0, 2, 0, 1, 1]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.gz", gzip.compress(idx(IMAGES), mtime=0)[:-30], ("truncated or damaged",)),
        ("a.gz", idx(IMAGES), ("truncated or damaged",)),
        ("a", idx(IMAGES)[:-1], ("fewer bytes than the 72",)),
        ("a", idx(IMAGES) + b"\0", ("more bytes than the 72",)),
        ("a", idx(IMAGES)[:9], ("header",)),
        ("a", b"", ("header",)),
        ("a", idx(LABELS), ("00000801", "00000803", "3 dimensions")),
        ("a", b"PK\x03\x04" + bytes(40), ("504b0304", "idx")),
        ("a", bytes((0, 0, 8, 3)) + struct.pack(">III", 2**31, 2**31, 2), ("fewer bytes",)),
    ],
)
def test_bad_files(tmp_path, name, data, words):
    path = save(tmp_path / name, data)
    with refused(str(path), *words):
        read_idx(path, 3)


def test_pairs_must_match(tmp_path):
    save(tmp_path / "train-images-idx3-ubyte", idx(IMAGES))
    with refused("train-labels-idx1-ubyte"):
        load(tmp_path)
    save(tmp_path / "train-labels-idx1-ubyte", idx(LABELS[:-1]))
    with refused("6 images", "5 labels"):
        load(tmp_path)
