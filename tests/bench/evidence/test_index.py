"""Evidence that is taken back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.samples import run_evidence
from understudy.bench.evidence.evidence import write_all_evidence
from understudy.bench.evidence.index import FILE, EvidenceIndex
from understudy.bench.evidence.store import read_store
from understudy.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all_evidence(tmp_path, [run_evidence(seed=seed) for seed in (0, 1)])
    return tmp_path


def test_withdrawn_evidence_is_gone_and_the_reason_stays(folder: Path) -> None:
    first, second = sorted(path.stem for path in folder.glob("*.json"))
    EvidenceIndex(folder).withdraw([first], "another noise")
    store = read_store(folder)
    assert [file.name for file in store.files] == [second]
    assert store.warnings() == []
    lines = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["run", "run", "withdrawn"]
    assert lines[-1]["body"] == {"name": first, "why": "another noise"}


def test_what_was_withdrawn_may_be_measured_again(folder: Path) -> None:
    first = min(path.stem for path in folder.glob("*.json"))
    EvidenceIndex(folder).withdraw([first], "another noise")
    write_all_evidence(folder, [run_evidence(seed=0)])
    assert read_store(folder).warnings() == []
    assert len(read_store(folder).files) == 2


def test_a_file_that_is_only_deleted_is_missed(folder: Path) -> None:
    first = min(folder.glob("*.json"))
    first.unlink()
    assert read_store(folder).warnings() == [f"missing: {first.name} is in the index and gone"]


@pytest.mark.parametrize(
    ("names", "why", "words"),
    [(["nothing"], "a reason", "nothing is not listed"), (None, " ", "say why")],
)
def test_it_needs_a_listed_name_and_a_reason(
    folder: Path, names: list[str] | None, why: str, words: str
) -> None:
    names = names or [min(path.stem for path in folder.glob("*.json"))]
    with pytest.raises(UserError, match=words):
        EvidenceIndex(folder).withdraw(names, why)
    assert len(read_store(folder).files) == 2
