"""Every file of a folder with its verdict."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.bench.samples import failed_run, run_evidence
from understudy.bench.evidence.evidence import write_all_evidence
from understudy.bench.evidence.run_tables import run_tables
from understudy.bench.evidence.seal import sealed_bytes
from understudy.bench.evidence.store import Store, read_store
from understudy.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all_evidence(tmp_path, [run_evidence(seed=seed) for seed in range(3)])
    return tmp_path


def first(folder: Path) -> Path:
    return min(folder.glob("*seed0*.json"))


def verdicts(store: Store) -> list[str]:
    return [file.trust for file in store.files]


def test_what_was_written_is_trusted(folder: Path) -> None:
    store = read_store(folder)
    assert verdicts(store) == ["trusted"] * 3
    assert store.warnings() == []
    assert [file.parsed()["config"]["seed"] for file in store.files] == [0, 1, 2]


def test_an_edited_file_is_not(folder: Path) -> None:
    path = first(folder)
    path.write_text(path.read_text().replace('"value": 0.8', '"value": 0.9'))
    store = read_store(folder)
    assert verdicts(store) == ["edited", "trusted", "trusted"]
    assert store.warnings() == [
        f"untrusted: {path.name} (edited: its seal does not fit its content)"
    ]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"value": 0.8', '"value": 1e400', "1e400 is too large a number"),
        ('"variant": "', '"variant": "\\ud800', "surrogates not allowed"),
        ('"seed": 0', f'"seed": {2**63}', "config.seed must be at most"),
    ],
)
def test_an_edit_that_no_table_can_hold_spoils_that_file_only(
    folder: Path, old: str, new: str, why: str
) -> None:
    path = first(folder)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    store = read_store(folder)
    assert verdicts(store) == ["unreadable", "trusted", "trusted"]
    assert why in store.warnings()[0]
    assert run_tables(store.of_kind("run")).runs.num_rows == 2


def test_a_lost_index_does_not_list_every_file(tmp_path: Path) -> None:
    write_all_evidence(tmp_path, [run_evidence(seed=seed) for seed in range(22)])
    (tmp_path / "index.jsonl").unlink()
    warnings = read_store(tmp_path).warnings()
    assert len(warnings) == 21
    assert warnings[-1] == "untrusted: 2 more"


def test_nor_one_that_was_edited_and_sealed_anew(folder: Path) -> None:
    path = first(folder)
    content = json.loads(path.read_text())
    content["metrics"]["rows"][0]["value"] = 0.9
    path.write_bytes(sealed_bytes({k: v for k, v in content.items() if k != "seal"}))
    assert verdicts(read_store(folder)) == ["unlisted", "trusted", "trusted"]


def test_nor_one_from_elsewhere(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (path,) = write_all_evidence(other, [run_evidence(method="dp-gan")])
    shutil.copy(path, folder)
    shutil.copy(first(folder), folder / "copy.json")
    store = read_store(folder)
    assert verdicts(store) == ["trusted"] * 3 + ["unlisted"] * 2
    assert {file.name for file in store.untrusted} == {"copy", path.stem}


def test_a_removed_file_is_missed(folder: Path) -> None:
    path = first(folder)
    path.unlink()
    store = read_store(folder)
    assert store.missing == (path.stem,)
    assert store.warnings() == [f"missing: {path.name} is in the index and gone"]


def test_what_is_no_evidence_is_shown_and_not_used(folder: Path) -> None:
    (folder / "old.json").write_text('{"format": "understudy-evidence/1"}')
    (folder / "torn.json").write_text('{"format"')
    (folder / "bad.json").write_text('{"format": "understudy-evidence/2", "kind": "run"}')
    (folder / "notes.txt").write_text("not looked at")
    store = read_store(folder)
    found = {file.name: file for file in store.files if not file.usable}
    assert {name: file.trust for name, file in found.items()} == {
        "old": "unknown format",
        "torn": "unreadable",
        "bad": "unreadable",
    }
    assert "field name is missing" in found["bad"].why
    assert len(store.of_kind("run")) == 3


def test_a_broken_index_vouches_for_nothing(folder: Path) -> None:
    index = folder / "index.jsonl"
    index.write_text(index.read_text().replace("seed1", "seed9"))
    store = read_store(folder)
    assert verdicts(store) == ["unlisted"] * 3
    assert store.warnings()[0].endswith("No file here is trusted.")
    assert "line 2" in store.warnings()[0]


def test_a_line_cut_from_the_index_shows(folder: Path) -> None:
    index = folder / "index.jsonl"
    index.write_bytes(b"".join(index.read_bytes().splitlines(keepends=True)[:2]))
    assert verdicts(read_store(folder)) == ["trusted", "trusted", "unlisted"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no evidence folder"):
        read_store(tmp_path / "nowhere")


def test_tables_hold_what_the_files_say(folder: Path) -> None:
    write_all_evidence(folder, [failed_run(method="dpdm")])
    files = read_store(folder).files
    tables = run_tables(files)
    assert tables.runs.column("run").to_pylist() == [file.name for file in files]
    assert tables.runs.column("status").to_pylist() == ["ok", "ok", "ok", "failed"]
    assert tables.runs.column("protocol").to_pylist() == ["standard"] * 4
    assert tables.metrics.column("value").to_pylist() == pytest.approx([0.8, 0.81, 0.82])
    assert tables.metrics.column("row").to_pylist() == [0, 1, 2]
    assert tables.metrics.column("bounds").to_pylist() == [[0.0, 1.0]] * 3
    assert tables.phases.num_rows == 9


def test_tables_of_nothing() -> None:
    tables = run_tables(())
    assert (tables.runs.num_rows, tables.metrics.num_rows, tables.phases.num_rows) == (0, 0, 0)
