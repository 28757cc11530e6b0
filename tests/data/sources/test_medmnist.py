from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.data.samples import refused, save
from understudy.data import shared_between, without_shared
from understudy.data.catalog import DATA_VARIABLE
from understudy.data.entry import PartFacts
from understudy.data.load import load

SHARED = os.environ.get(DATA_VARIABLE)
COUNTS = {"train": 6, "val": 3, "test": 4}
PARTS = {"train": PartFacts(6), "test": PartFacts(4), "validation": PartFacts(3)}
RNG = np.random.default_rng(0)


def npy(array: np.ndarray, descr: str | None = None) -> bytes:
    """An npy file by hand: magic, version, header length, header, values."""
    head = f"{{'descr': '{descr or array.dtype.str}', 'fortran_order': False, "
    head += f"'shape': {array.shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + array.tobytes()


def npz(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def arrays(channels: int = 1, labels: int = 1, classes: int = 2) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for key, count in COUNTS.items():
        form = (count, 28, 28) if channels == 1 else (count, 28, 28, channels)
        found[f"{key}_images"] = RNG.integers(0, 256, form, np.uint8)
        found[f"{key}_labels"] = RNG.integers(0, classes, (count, labels)).astype(np.uint8)
    return found


def written(found: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: npy(array) for name, array in found.items()}


@pytest.mark.parametrize(
    ("name", "channels", "classes"), [("pneumoniamnist", 1, 2), ("bloodmnist", 3, 8)]
)
def test_grey_and_colour(shrunk, name, channels, classes):
    found = arrays(channels, classes=classes)
    folder = shrunk(name, parts=PARTS)
    save(folder / f"{name}.npz", npz(written(found)))
    dataset = load(name)
    assert list(dataset.parts) == ["train", "test", "validation"]
    for part, key in (("train", "train"), ("validation", "val"), ("test", "test")):
        own = found[f"{key}_images"]
        shown = own[:, None] if channels == 1 else own.transpose(0, 3, 1, 2)
        assert (dataset.part(part).features == shown).all()
        assert dataset.part(part).labels.tolist() == found[f"{key}_labels"][:, 0].tolist()
    assert len(dataset.schema.classes) == classes
    assert "not byte for byte as published" in dataset.provenance
    assert dataset.part("train").features.flags.writeable


def test_chestmnist_is_fourteen_questions_and_has_no_label_of_its_own(shrunk):
    found = arrays(labels=14)
    folder = shrunk("chestmnist", parts=PARTS)
    save(folder / "chestmnist.npz", npz(written(found)))
    dataset = load("chestmnist", label="mass")
    assert len(dataset.schema.names) == 14
    assert dataset.schema.classes == ("no", "yes")
    assert dataset.part("test").labels.tolist() == found["test_labels"][:, 4].tolist()
    with refused("--label", "atelectasis"):
        assert load("chestmnist").schema.classes


def other(name: str, data: bytes) -> dict[str, bytes]:
    return {**written(arrays()), name: data}


WRONG = np.zeros((6, 28, 28), np.uint8)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (other("train_images", npy(WRONG[:5])), ("train_images", "(5, 28, 28)", "(6, 28, 28)")),
        (other("train_images", npy(WRONG[:, :14])), ("train_images", "(6, 14, 28)")),
        (other("train_images", npy(WRONG.astype(np.float32))), ("train_images", "float32")),
        (other("train_images", npy(WRONG[:0], "|O")), ("train_images", "object")),
        (other("train_images", npy(WRONG)[:-1]), ("train_images", "4,703 bytes", "4,704")),
        (other("train_images", b"not numpy"), ("train_images", "not an array of numpy")),
        (other("train_labels", npy(np.full((6, 1), 2, np.uint8))), ("the code 2", "2 classes")),
        (other("train_labels", npy(np.zeros((6, 14), np.uint8))), ("train_labels", "(6, 14)")),
        ({"train_images": npy(WRONG)}, ("lacks train_labels.npy",)),
    ],
)
def test_another_file_is_refused_by_name(shrunk, members, words):
    folder = shrunk("pneumoniamnist", parts=PARTS)
    path = save(folder / "pneumoniamnist.npz", npz(members))
    with refused(str(path), *words):
        load("pneumoniamnist")


def test_a_header_is_not_believed_before_its_bytes_are_there(shrunk):
    """Ten to the twelfth images are announced: nothing is allocated for them."""
    folder = shrunk("pneumoniamnist", parts={**PARTS, "train": PartFacts(10**12)})
    head = npy(WRONG).replace(b"(6, 28, 28), }", b"(1000000000000, 28, 28), }")
    size = int.from_bytes(head[8:10], "little") + len(b"1000000000000") - 1
    data = head[:8] + size.to_bytes(2, "little") + head[10:]
    save(folder / "pneumoniamnist.npz", npz(other("train_images", data)))
    with refused("train_images", "4,704 bytes"):
        load("pneumoniamnist")


@pytest.mark.parametrize("cut", [0, 10, -40])
def test_a_file_that_is_no_npz_is_refused(shrunk, cut):
    folder = shrunk("pneumoniamnist", parts=PARTS)
    whole = npz(written(arrays()))
    path = save(folder / "pneumoniamnist.npz", whole[:cut])
    with refused(str(path), "truncated or damaged"):
        load("pneumoniamnist")


class Notes:
    """Progress that remembers what was said."""

    def __init__(self) -> None:
        from understudy.progress import Silent

        self.lines: list[str] = []
        self.task = Silent().task

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_images_in_two_parts_are_reported_and_can_be_dropped(shrunk):
    found = arrays()
    found["val_images"][1] = found["train_images"][4]
    folder = shrunk("pneumoniamnist", parts=PARTS)
    save(folder / "pneumoniamnist.npz", npz(written(found)))
    notes = Notes()
    dataset = load("pneumoniamnist", progress=notes)
    assert len(notes.lines) == 1
    assert "validation part that are in the train part too: 1;" in notes.lines[0]
    assert len(dataset.part("validation")) == 3
    distinct = without_shared(dataset.parts)
    assert (distinct["validation"].features[:, 0] == found["val_images"][[0, 2]]).all()
    assert distinct["train"] is dataset.part("train")
    assert shared_between(distinct) == {}


@pytest.mark.data
@pytest.mark.skipif(SHARED is None, reason=f"needs the raw files under ${DATA_VARIABLE}")
def test_the_real_pneumoniamnist():
    if not (Path(str(SHARED)) / "pneumoniamnist").is_dir():
        pytest.skip(f"no pneumoniamnist under ${DATA_VARIABLE}")
    notes = Notes()
    dataset = load("pneumoniamnist", progress=notes)
    assert {p: len(r) for p, r in dataset.parts.items()} == {
        "train": 4708,
        "validation": 524,
        "test": 624,
    }
    assert np.bincount(dataset.part("test").labels).tolist() == [234, 390]
    assert shared_between(dataset.parts) == {("train", "validation"): 8}
    assert "too: 8;" in notes.lines[0]
    assert "order" in dataset.provenance
