"""Evidence of two folders under one index."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.samples import run_evidence
from understudy.bench.evidence.evidence import write_all_evidence
from understudy.bench.evidence.joining import join_evidence
from understudy.bench.evidence.store import read_store
from understudy.errors import UserError


@pytest.fixture
def there(tmp_path: Path) -> Path:
    write_all_evidence(tmp_path / "there", [run_evidence(seed=seed) for seed in (0, 1)])
    return tmp_path / "there"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write_all_evidence(tmp_path / "here", [run_evidence(seed=2)])
    return tmp_path / "here"


def test_trusted_files_arrive_byte_for_byte_and_stay_trusted(there: Path, here: Path) -> None:
    arrived = join_evidence(there, here)
    assert {path.read_bytes() for path in arrived} == {
        path.read_bytes() for path in there.glob("*.json")
    }
    store = read_store(here)
    assert [file.trust for file in store.files] == ["trusted"] * 3
    assert store.warnings() == []


def test_joining_again_brings_nothing(there: Path, here: Path) -> None:
    join_evidence(there, here)
    assert join_evidence(there, here) == ()


def test_a_file_that_was_deleted_there_is_not_missed(there: Path, here: Path) -> None:
    gone = min(there.glob("*.json"))
    gone.unlink()
    assert gone.name not in {path.name for path in join_evidence(there, here)}


def test_an_edited_file_refuses_the_whole(there: Path, here: Path) -> None:
    path = min(there.glob("*.json"))
    path.write_text(path.read_text().replace('"value": 0.8', '"value": 0.9'))
    with pytest.raises(UserError, match=f"not trusted: {path.stem}"):
        join_evidence(there, here)
    assert len(read_store(here).files) == 1


def test_a_name_that_another_content_has_is_refused(there: Path, here: Path) -> None:
    join_evidence(there, here)
    taken = min(here.glob("*seed0*.json"))
    taken.write_text(taken.read_text() + " ")
    with pytest.raises(UserError, match="exists already"):
        join_evidence(there, here)
