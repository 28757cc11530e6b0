from __future__ import annotations

import os
import statistics
from pathlib import Path

import numpy as np
import pytest

from tests.data.samples import refused, save
from understudy.data.catalog import DATA_VARIABLE
from understudy.data.dedup import deduplicate
from understudy.data.entry import PartFacts
from understudy.data.load import load
from understudy.data.records import Images
from understudy.data.sources.adult import adult_columns

ROW = (
    "{age}, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, "
    "{sex}, 2174, 0, 40, United-States, {income}"
)
UNKNOWN = (
    "54, ?, 180211, Some-college, 10, Married-civ-spouse, ?, Husband, Asian-Pac-Islander, Male, "
    "0, 0, 60, South, >50K"
)


def row(age=39, sex="Male", income="<=50K") -> str:
    return ROW.format(age=age, sex=sex, income=income)


@pytest.fixture
def adult(shrunk):
    def write(train=None, test=None):
        parts = {"train": PartFacts(2, per_class=(1, 1)), "test": PartFacts(1, per_class=(1, 0))}
        folder = shrunk("adult", parts=parts)
        rows = train or [row(), UNKNOWN, row(37, "Female", ">50K"), ""]
        save(folder / "adult.data", "\n".join(rows).encode())
        rows = test or ["|1x3 Cross validator", row(income="<=50K."), ""]
        save(folder / "adult.test", "\n".join(rows).encode())
        return folder

    return write


def test_a_row_becomes_102_columns_and_two_attributes(adult):
    adult()
    dataset = load("adult")
    train = dataset.part("train")
    assert not isinstance(train, Images)
    assert dataset.shape == (102,)
    assert train.features.dtype == np.float32
    assert train.attributes["income"].tolist() == [0, 1]
    assert train.attributes["gender"].tolist() == [0, 1]
    names = np.array(adult_columns().names)
    said = set(names[train.features[0] == 1])
    assert {"age > 37", "education = Bachelors", "capital-gain > 0", "race = White"} < said
    assert "fnlwgt > 178425" not in said
    assert "hours-per-week > 40" not in said
    assert "age > 37" not in set(names[train.features[1] == 1])
    assert len(dataset.part("test")) == 1


def test_nothing_of_gender_or_income_is_a_column():
    names = adult_columns().names
    assert len(names) == len(set(names)) == 102
    assert not [n for n in names if n.startswith(("sex", "income"))]


def test_a_row_means_the_same_in_any_company(adult):
    adult()
    first = load("adult").part("train").features[0]
    adult(train=[row(90, income=">50K"), row()])
    assert np.array_equal(load("adult").part("train").features[1], first)


def test_people_described_alike_are_all_kept(adult):
    adult(train=[row(), row()], test=[row()])
    with refused("class"):
        load("adult")
    adult(train=[row(), row(income=">50K")])
    train = load("adult").part("train").select([0, 0, 1])
    assert len(deduplicate(train).records) == 3


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([row(), "1, 2, 3"], ("line 2", "15")),
        ([row().replace("Bachelors", "Bachelor"), row()], ("line 1", "education")),
        ([row(age="old"), row()], ("line 1", "age")),
        ([row(sex="Other"), row(income=">50K")], ("gender",)),
        ([row()], ("holds 1",)),
    ],
)
def test_other_files_are_refused(adult, lines, words):
    adult(train=lines)
    with refused(*words):
        load("adult")


def test_missing_files_are_named_offline(shrunk, monkeypatch):
    shrunk("adult")
    with refused("adult.data", "adult.test", "archive.ics.uci.edu"):
        load("adult")
    monkeypatch.delenv(DATA_VARIABLE)
    with refused("adult.data", "UNDERSTUDY_DATA"):
        load("adult")


def test_a_table_has_no_size(adult):
    adult()
    with refused("table", "--size"):
        load("adult", size=8)


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get(DATA_VARIABLE), reason=f"needs ${DATA_VARIABLE}")
def test_the_published_file_has_the_medians_that_we_state():
    dataset = load("adult")
    assert "identical" in dataset.provenance
    assert [len(dataset.part(p)) for p in ("train", "test")] == [30_162, 15_060]
    columns = adult_columns()
    path = Path(os.environ[DATA_VARIABLE]) / "adult" / "adult.data"
    with path.open() as file:
        rows = [[c.strip() for c in line.split(",")] for line in file if line.strip()]
    kept = [r for r in rows if "?" not in r]
    for name, limit in columns.above.items():
        at = columns.fields.index(name)
        assert statistics.median(int(r[at]) for r in kept) == limit
    assert dataset.part("train").features.any(axis=0).all()
