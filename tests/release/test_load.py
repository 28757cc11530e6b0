from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.release.forge import (
    long_story,
    make_claim,
    make_records,
    make_story,
    release_of,
    released_story,
    restate,
)
from understudy.errors import UserError
from understudy.release.bundle import ReleaseInfo
from understudy.release.load import load_release


def test_release_comes_back_as_it_went(plain: ReleaseInfo) -> None:
    expected = make_records(soft=True, extra=True)
    records, claim = load_release(plain.folder)
    assert records.features.tobytes() == expected.features.tobytes()
    assert records.schema == expected.schema
    for name in expected.schema.names:
        assert np.array_equal(records.attributes[name], expected.attributes[name])
    assert claim.spending == make_claim(released_story(long_story()), expected).spending
    assert records.units is None


def test_colour_comes_back_too(tmp_path: Path) -> None:
    expected = make_records(channels=3)
    release_of(make_story(), expected, tmp_path / "out")
    assert np.array_equal(load_release(tmp_path / "out")[0].features, expected.features)


def test_what_cannot_be_loaded_is_one_sentence(plain: ReleaseInfo, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no release at"):
        load_release(tmp_path)
    restate(plain.folder, lambda c: replace(c, records=replace(c.records, count=10**15)))
    with pytest.raises(UserError, match="the tables hold 24"):
        load_release(plain.folder)
    (plain.folder / plain.shards[0]).write_bytes(b"no table")
    with pytest.raises(UserError, match="cannot be read"):
        load_release(plain.folder)
