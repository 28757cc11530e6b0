from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from tests.data.samples import refused
from tests.data.sources.test_idx import idx
from understudy.data import catalog as catalog_module
from understudy.data.catalog import DATA_VARIABLE, catalog, catalog_entry
from understudy.data.load import load
from understudy.data.sources import hub
from understudy.data.sources.raw import Column, RawPart
from understudy.data.sources.readers import reader_of
from understudy.errors import UserError

RAW = ("mnist", "fashion-mnist")
FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
SHARED = os.environ.get(DATA_VARIABLE)


@pytest.fixture
def offline(monkeypatch):
    def unreachable(source: str, _: object):
        raise UserError(f"{source} is not in the Hub cache and offline.")

    monkeypatch.setattr(catalog_module, "load_hub", unreachable)


def test_every_entry_states_what_a_card_needs():
    assert {"digits", "portraits", "mnist", "cifar-10", "celeba", "camelyon"} <= set(catalog())
    for entry in catalog().values():
        assert entry.public
        assert entry.licence
        assert entry.provenance
        assert {"train", "test"} <= set(entry.parts)
    for name in RAW:
        assert set(catalog()[name].md5) == set(FILES)
        assert len(catalog()[name].classes) == 10


@pytest.mark.parametrize("entry", catalog().values(), ids=lambda entry: entry.name)
def test_the_facts_of_an_entry_agree_with_each_other(entry):
    for known in entry.parts.values():
        assert not known.per_class or sum(known.per_class) == known.count
        assert not (known.per_class and entry.classes) or len(known.per_class) == len(entry.classes)
    for classes in (entry.classes, *entry.others.values()):
        assert len(set(classes)) == len(classes)
        assert all(isinstance(name, str) for name in classes)
    assert entry.label not in entry.others
    assert all(len(digest) == 32 for digest in entry.md5.values())
    if entry.kind != "built-in":
        assert callable(reader_of(entry.kind))
        assert entry.files
        assert entry.homepage


@pytest.mark.parametrize("name", ["utkface", "fairface", "celeba"])
def test_faces_of_real_people_are_neither_shown_nor_learnt_for_others(name):
    terms = catalog_entry(name).terms
    assert not terms.pictures_shown
    assert not terms.models_shipped
    assert "real people" in terms.because


def test_every_entry_gives_a_reason_for_its_terms():
    for entry in catalog().values():
        terms = entry.terms
        assert isinstance(terms.pictures_shown, bool)
        assert isinstance(terms.models_shipped, bool)
        assert terms.because
        assert not terms.because.endswith(".")
        if "non-commercial" in entry.licence or "NC" in entry.licence.split():
            assert not terms.models_shipped, entry.name


def test_a_kind_that_nobody_reads_is_named():
    with refused("'cifer'", "did you mean cifar"):
        reader_of("cifer")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cifar-10", ("cifar-10-binary.tar.gz", "understudy[hub]")),
        ("pneumoniamnist", ("pneumoniamnist.npz", "https://medmnist.com")),
        ("tiny-imagenet", ("tiny-imagenet-200.zip", "cs231n")),
        ("eurosat", ("EuroSAT.zip", "github.com/phelber")),
        ("celeba", ("img_align_celeba.zip", "list_attr_celeba.txt", "mmlab")),
        ("camelyon", ("metadata.csv", "patches", "wilds")),
        ("fairface", ("fairface_label_train.csv", "train and val", "github.com/joojs")),
        ("utkface", ("UTKFace.tar.gz", "susanqq")),
    ],
)
@pytest.mark.usefixtures("offline")
def test_every_kind_says_which_raw_files_it_misses(name, words, monkeypatch, tmp_path):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with refused(name, *words, str(tmp_path / name)):
        load(name)
    monkeypatch.delenv(DATA_VARIABLE)
    with refused(name, *words, f"${DATA_VARIABLE}/{name}/", "is not set"):
        load(name)


@pytest.mark.parametrize(
    "name", ["cifar-10", "bloodmnist", "tiny-imagenet", "eurosat", "celeba", "camelyon", "fairface"]
)
def test_an_empty_folder_is_told_what_it_lacks(name, monkeypatch, tmp_path):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    (tmp_path / name).mkdir()
    with refused(str(tmp_path / name), "lacks", catalog_entry(name).files):
        load(name)


def test_unknown_names_get_the_nearest():
    with refused("'fasion-mnist'", "did you mean fashion-mnist"):
        catalog_entry("fasion-mnist")


@pytest.mark.parametrize("name", RAW)
@pytest.mark.usefixtures("offline")
def test_without_data_the_error_says_which_files_to_put_where(name, monkeypatch, tmp_path):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with refused(name, *FILES, str(tmp_path / name), "understudy[hub]"):
        load(name)
    monkeypatch.delenv(DATA_VARIABLE)
    with refused(name, *FILES, f"${DATA_VARIABLE}/{name}/", "is not set"):
        load(name)


@pytest.mark.usefixtures("offline")
def test_half_of_the_files_names_the_other_half(monkeypatch, tmp_path):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    (tmp_path / "mnist").mkdir()
    for name in FILES[:2]:
        (tmp_path / "mnist" / name).write_bytes(b"")
    with refused(str(tmp_path / "mnist"), "lacks t10k-images", "t10k-labels"):
        load("mnist")


def test_other_pixels_under_the_same_name_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    write_raw(tmp_path / "mnist", np.zeros((4, 28, 28), np.uint8), np.zeros(4, np.uint8))
    with refused("train-images", "not the published file of mnist", "its folder"):
        load("mnist")
    assert len(load(tmp_path / "mnist").part("train")) == 4


def write_raw(folder: Path, images: np.ndarray, labels: np.ndarray) -> None:
    folder.mkdir(parents=True)
    for name in FILES:
        array = images if "images" in name else labels
        (folder / name).write_bytes(gzip.compress(idx(array)))


@pytest.fixture
def small_mnist(monkeypatch) -> tuple[np.ndarray, np.ndarray]:
    """The catalog with an `mnist` of twelve images, so that its paths can be walked."""
    images = np.random.default_rng(0).integers(0, 256, (12, 28, 28), np.uint8)
    labels = np.arange(12, dtype=np.uint8) % 10
    published = catalog_module.PartFacts(
        12, hashlib.sha256(images).hexdigest(), hashlib.sha256(labels).hexdigest()
    )
    entry = catalog_module.replace(
        catalog_entry("mnist"), parts={"train": published, "test": published}
    )
    monkeypatch.setattr(catalog_module, "catalog", lambda: {"mnist": entry})
    return images, labels


@pytest.mark.usefixtures("offline")
def test_raw_files_are_found_checked_and_resized_after_the_check(
    small_mnist, monkeypatch, tmp_path
):
    write_raw(tmp_path / "mnist", *small_mnist)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    dataset = load("mnist")
    assert (dataset.part("test").features[:, 0] == small_mnist[0]).all()
    assert dataset.part("test").labels.tolist() == small_mnist[1].tolist()
    assert dataset.public
    assert "raw files" in dataset.provenance
    assert load("mnist", size=14, channels=3).shape == (3, 14, 14)


@pytest.mark.parametrize("changed", [False, True])
def test_the_hub_is_next_and_provenance_says_whether_it_is_the_same(
    small_mnist, changed, monkeypatch, tmp_path
):
    images, labels = small_mnist
    images = images ^ 1 if changed else images
    part = RawPart(
        images[:, None], ["x"] * 12, {"label": Column(labels.tolist(), tuple("abcdefghij"))}
    )
    monkeypatch.setattr(catalog_module, "load_hub", lambda *_: {"train": part, "test": part})
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    dataset = load("mnist")
    assert dataset.schema.classes == tuple("0123456789")
    assert dataset.part("train").labels.tolist() == labels.tolist()
    assert ("differs" if changed else "identical") in dataset.provenance


def test_both_labels_of_cifar_100_come_from_the_hub_too(shrunk, monkeypatch):
    pixels = np.zeros((2, 3, 32, 32), np.uint8)
    columns = {"fine_label": Column([99, 0]), "coarse_label": Column([19, 4])}
    part = RawPart(pixels, ["a", "b"], columns)
    monkeypatch.setattr(catalog_module, "load_hub", lambda *_: {"train": part, "test": part})
    facts = {"train": catalog_module.PartFacts(2), "test": catalog_module.PartFacts(2)}
    shrunk("cifar-100", parts=facts).rmdir()
    dataset = load("cifar-100")
    assert dataset.part("train").labels.tolist() == [99, 0]
    assert dataset.schema.attribute("coarse_label").classes[19] == "vehicles_2"
    assert "not compared byte for byte" in dataset.provenance


@pytest.mark.usefixtures("small_mnist")
def test_a_hub_repository_of_another_shape_is_refused(monkeypatch):
    part = RawPart(np.zeros((3, 1, 28, 28), np.uint8), ["x"] * 3, {"label": Column([0, 1, 2])})
    monkeypatch.setattr(catalog_module, "load_hub", lambda *_: {"train": part, "test": part})
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with refused("hf:ylecun/mnist", "train", DATA_VARIABLE):
        load("mnist")


def test_the_hub_route_asks_for_the_right_repository(monkeypatch):
    asked = []

    def fetch(repository: str, _: str | None):
        asked.append(repository)
        raise UserError("stop.")

    monkeypatch.setattr(hub, "_fetch", fetch)
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    for name in RAW:
        with refused(name):
            load(name)
    assert asked == ["ylecun/mnist", "zalando-datasets/fashion_mnist"]


def test_units_of_a_catalog_set_are_known_or_refused():
    with refused("digits", "--unit"):
        load("digits", unit="writer")
    with refused("celeba", "--unit identity", "'person'"):
        load("celeba", unit="person")


def test_built_in_sets_take_label_and_size():
    digits = load("digits", size=16)
    assert digits.shape == (1, 16, 16)
    assert digits.public
    assert "stratified" in str(digits.split)
    with refused("'lable'"):
        load("digits", label="lable")
    with refused("classes"):
        load("digits", classes=["a", "b"])


@pytest.mark.data
@pytest.mark.skipif(SHARED is None, reason=f"needs the raw files under ${DATA_VARIABLE}")
@pytest.mark.parametrize("name", RAW)
def test_the_real_files_load_and_are_the_published_ones(name):
    folder = Path(str(SHARED)) / name
    if not folder.is_dir():
        pytest.skip(f"no {name} under ${DATA_VARIABLE}")
    entry = catalog_entry(name)
    for file, digest in entry.md5.items():
        data = (folder / file).read_bytes()
        assert hashlib.md5(data, usedforsecurity=False).hexdigest() == digest
    dataset = load(name)
    assert dataset.shape == (1, 28, 28)
    assert {part: len(records) for part, records in dataset.parts.items()} == {
        "train": 60_000,
        "test": 10_000,
    }
    assert np.bincount(dataset.part("test").labels).min() > 800
