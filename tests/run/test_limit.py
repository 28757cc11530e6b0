"""Smoke runs: about so many records, by a rule that one record more cannot upset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from understudy.data.load import load
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.evaluation.protocol import load_protocol
from understudy.privacy.noise.source import NoiseSource
from understudy.progress import Silent
from understudy.run.config import RunConfig
from understudy.run.limit import limited_protocol, limited_test, limited_train
from understudy.run.prepare import prepare, run_facts, sample_count

KEY = bytes(range(32))


@pytest.fixture(scope="module")
def train() -> Records:
    return load("digits").part("train")


def contents(records: Records) -> set[bytes]:
    return {row.tobytes() for row in records.features}


def test_about_as_many_as_asked_for(train: Records) -> None:
    sizes = [len(limited_train(train, len(train), 200, KEY[i:] + KEY[:i])) for i in range(8)]
    assert len(set(sizes)) > 1, "the number is random"
    assert all(140 < size < 260 for size in sizes)
    assert limited_train(train, len(train), len(train), KEY) is train


def test_one_record_more_moves_nothing_else(train: Records) -> None:
    """The declared count stays; a unit comes or goes alone."""
    whole = contents(limited_train(train, 1438, 100, KEY))
    for i in range(0, 60, 7):
        without = train.select(np.delete(np.arange(len(train)), i))
        changed = whole ^ contents(limited_train(without, 1438, 100, KEY))
        assert changed <= {train.features[i].tobytes()}


def test_a_run_declares_what_it_uses(tmp_path: Path) -> None:
    config = RunConfig("digits", "dp-merf", 1.0, limit=50, time=None)
    prepared = prepare(config, tmp_path, Silent())
    assert prepared.facts.count == 50
    assert prepared.facts.counts == {"train": 50}
    assert 20 < len(prepared.material.private) < 90
    assert prepared.material.test is not None
    assert len(prepared.material.test) == 50
    assert sample_count(prepared) == 50
    assert run_facts(prepared, NoiseSource()).to_json()["limit"] == 50
    whole = prepare(RunConfig("digits", "dp-merf", 1.0, samples=9, time=None), tmp_path, Silent())
    assert sample_count(whole) == 9
    assert "limit" not in run_facts(whole, NoiseSource()).to_json()


def test_the_test_part_and_the_protocol(train: Records) -> None:
    few = limited_test(train, 10)
    assert few is not None
    assert len(few) == 10
    assert limited_test(None, 10) is None
    assert limited_test(few, 10) is few
    protocol = load_protocol("standard")
    assert limited_protocol(protocol, None) is protocol
    stamp = limited_protocol(load_protocol("reduced"), 7).stamp or ""
    assert stamp.startswith("reduced protocol")
    assert "limited to about 7" in stamp


def test_too_small_a_limit_is_refused() -> None:
    with pytest.raises(UserError, match="--limit must be at least 2"):
        RunConfig("digits", "dp-merf", 1.0, limit=1)
