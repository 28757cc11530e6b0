"""Records kept in a folder come back as they were; nothing in it is pickled."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.data.samples import make_records, refused
from understudy.data.record_arrays import load_records, save_records
from understudy.data.records import Images, Records
from understudy.data.schema import Attribute, Schema

SOFT = np.float32([[0.2, 0.8], [1.0, 0.0]])


def latents() -> Records:
    schema = Schema((Attribute("mood", ("calm", "glad")), Attribute("side", ("l", "r"))), "mood")
    features = np.float32([[0.5, -1.0, 2.0], [3.0, 0.0, 1.0]])
    return Records(features, {"mood": SOFT, "side": np.int8([1, 0])}, schema)


@pytest.mark.parametrize("records", [latents(), make_records(7)], ids=["soft", "images"])
def test_records_come_back_as_they_were(tmp_path: Path, records: Records) -> None:
    save_records(tmp_path / "kept", records)
    back = load_records(tmp_path / "kept")
    assert type(back) is type(records)
    assert back.schema == records.schema
    assert back.features.dtype == records.features.dtype
    assert np.array_equal(back.features, records.features)
    for name, column in records.attributes.items():
        assert back.attributes[name].dtype == column.dtype
        assert np.array_equal(back.attributes[name], column)


def test_soft_labels_stay_soft(tmp_path: Path) -> None:
    save_records(tmp_path, latents())
    assert load_records(tmp_path).soft == ("mood",)


def test_units_are_not_kept(tmp_path: Path) -> None:
    named = replace(make_records(5), units=np.array(["ann smith"] * 5))
    save_records(tmp_path, named)
    back = load_records(tmp_path)
    assert isinstance(back, Images)
    assert back.units is None
    with np.load(tmp_path / "records.npz", allow_pickle=False) as kept:
        assert "units" not in kept.files


def test_a_folder_that_holds_records_is_not_written_over(tmp_path: Path) -> None:
    save_records(tmp_path, latents())
    with refused(str(tmp_path), "records.npz", "new folder"):
        save_records(tmp_path, make_records(3))
    assert len(load_records(tmp_path)) == 2


def test_a_folder_without_records_says_what_it_must_hold(tmp_path: Path) -> None:
    with refused(str(tmp_path / "schema.json"), "missing"):
        load_records(tmp_path)


@pytest.mark.parametrize("name", ["records.npz", "schema.json"])
@pytest.mark.parametrize("content", [b"", b"{}", pickle.dumps({"a": 1})])
def test_damage_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    save_records(tmp_path, latents())
    (tmp_path / name).write_bytes(content)
    with refused(str(tmp_path / name), "damaged"):
        load_records(tmp_path)


def test_a_pickled_array_is_never_opened(tmp_path: Path) -> None:
    save_records(tmp_path, latents())
    evil = {"features": np.array([{"run": "me"}], dtype=object)}
    np.savez(tmp_path / "records.npz", **evil)
    with refused(str(tmp_path), "damaged"):
        load_records(tmp_path)
