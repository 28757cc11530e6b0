"""What comes home of a job: small files, whole or refused by name, and only what a result holds."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.bench.rig import cell, check_whole, run_all
from tests.workplace import Workplace
from understudy.bench.away import fit_jobs as away
from understudy.bench.away import result
from understudy.bench.away.collect import collect
from understudy.bench.away.manifest import MANIFEST, PIECES, Manifest
from understudy.bench.away.pack import Moved, pack
from understudy.bench.away.pieces import MEBIBYTE, split
from understudy.bench.away.result import ARCHIVE, RESULT_FORMAT, RESULT_PIECE_SIZE
from understudy.bench.suite.cell import Cell
from understudy.bench.work.workspace import Workspace
from understudy.errors import UserError
from understudy.progress import Silent
from understudy.run.folder import RunFolder

UNSIZED = {"samples": None}
"""A method of a record map makes as many as leave."""


def packed(place: Workplace, *cells: Cell) -> list[Moved]:
    return pack(cells, Workspace(place / "bench"), place / "job", place.home, Silent())


def collected(place: Workplace, source: str = "result") -> list[Moved]:
    return collect(place / source, Workspace(place / "bench"), place.home)


def worked_off(place: Workplace, *words: str) -> int:
    return away.main(
        [str(place / "job"), "--phases", "fit,sample", "--result", str(place / "result"), *words]
    )


def pieces(place: Workplace) -> list[Path]:
    return sorted((place / "result" / PIECES).iterdir())


def test_no_file_of_a_result_is_too_large_to_come_back() -> None:
    assert RESULT_PIECE_SIZE < 16 * MEBIBYTE


def test_every_piece_that_is_missing_or_damaged_is_named_and_a_whole_one_comes_home(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "RESULT_PIECE_SIZE", 3000)
    mine = cell(workplace)
    packed(workplace, mine)
    assert worked_off(workplace) == away.OK
    assert len(pieces(workplace)) > 3
    for path in (workplace / "result").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    for path in pieces(workplace):
        whole = path.read_bytes()
        path.write_bytes(whole[1:])
        with pytest.raises(UserError, match=f"is damaged: bring {path.name}"):
            collected(workplace)
        path.unlink()
        with pytest.raises(UserError, match=f"is missing: bring {path.name}"):
            collected(workplace)
        path.write_bytes(whole)
    assert not list(workplace.folder.glob("bench/cells/*/run/ledger.jsonl")), "nothing was taken"
    assert [m.done for m in collected(workplace)] == [True]
    assert not list(workplace.folder.glob("bench/away/*")), "nothing half unpacked is left"
    assert run_all(workplace, mine)[0].ok


@pytest.mark.parametrize("words", [("fit",), ("fit,sample",), ("fit,sample", "--samples", "none")])
def test_records_that_left_while_the_ledger_was_open_always_come_home(
    workplace: Workplace, words: tuple[str, ...]
) -> None:
    """They are no samples that a synthesizer at home could make again."""
    mine = cell(workplace, "tests.run.map_methods:DarkCopies", settings=(), epsilon=None, **UNSIZED)
    packed(workplace, mine)
    job, target = str(workplace / "job"), str(workplace / "result")
    assert away.main([job, "--result", target, "--phases", *words]) == away.OK
    (there,) = workplace.folder.glob("job/cells/*/run/samples")
    left = RunFolder(there.parent).load_samples()
    assert [m.done for m in collected(workplace)] == [True]
    (job_folder,) = workplace.folder.glob("job")
    shutil.rmtree(job_folder)
    outcome, _, _ = run_all(workplace, mine)
    assert outcome.ok, outcome
    kept = [RunFolder(p.parent) for p in workplace.folder.glob("bench/cells/**/samples")]
    assert kept
    assert all(np.array_equal(one.load_samples().features, left.features) for one in kept)


def test_a_result_without_the_records_that_left_is_not_bound_to_its_plan(
    workplace: Workplace,
) -> None:
    mine = cell(workplace, "tests.run.map_methods:DarkCopies", settings=(), epsilon=None, **UNSIZED)
    packed(workplace, mine)
    assert away.main([str(workplace / "job")]) == away.OK
    (there,) = workplace.folder.glob("job/cells/*/run/samples")
    there.rename(workplace / "aside")
    with pytest.raises(UserError, match="holds none of the records that left"):
        collected(workplace, "job")
    (workplace / "aside").rename(there)
    assert [m.done for m in collected(workplace, "job")] == [True]


def test_without_samples_the_synthesizer_and_its_ledger_come_home(workplace: Workplace) -> None:
    mine = cell(workplace)
    packed(workplace, mine)
    assert worked_off(workplace, "--samples", "none") == away.OK
    assert [m.done for m in collected(workplace)] == [True]
    (run,) = workplace.folder.glob("bench/cells/*/run")
    assert (run / "ledger.jsonl").exists()
    assert (run / "synthesizer").is_dir()
    assert not list(workplace.folder.glob("bench/cells/*/sampled/*/samples"))
    assert run_all(workplace, mine)[0].ok, "they are made at home"
    check_whole(workplace, cells=1)


def test_no_state_of_the_door_goes_home(workplace: Workplace) -> None:
    """Checkpoints hold the models of shards, which no noise ever hid."""
    packed(workplace, cell(workplace))
    assert worked_off(workplace) == away.OK
    assert list(workplace.folder.glob("job/cells/*/run/checkpoints")), "there are some to leave"
    result.join_result(workplace / "result", workplace / "joined")
    with tarfile.open(workplace / "joined") as archive:
        parts = {part for name in archive.getnames() for part in Path(name).parts}
    assert "ledger.jsonl" in parts
    assert not {"checkpoints", "door.safetensors", "method.safetensors", "scratch"} & parts


def test_a_result_takes_the_place_of_an_earlier_one_and_of_nothing_else(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    packed(workplace, cell(workplace))
    (workplace / "result").mkdir()
    (workplace / "result/thesis.txt").write_text("years of work")
    assert worked_off(workplace) == 2
    assert "holds something else; choose another folder" in capsys.readouterr().err
    assert not list(workplace.folder.glob("job/cells/*/run")), "refused before hours of work"
    (workplace / "result/thesis.txt").unlink()
    assert worked_off(workplace, "--samples", "none") == away.OK
    first = {path.name for path in pieces(workplace)}
    assert worked_off(workplace) == away.OK
    assert first.isdisjoint(path.name for path in pieces(workplace))
    assert [m.done for m in collected(workplace)] == [True]


def test_what_is_no_result_is_named(workplace: Workplace) -> None:
    (workplace / "empty").mkdir()
    (workplace / "file").write_text("no folder")
    for name in ("empty", "file", "nothing"):
        with pytest.raises(UserError, match=f"{name} is neither a job folder"):
            collected(workplace, name)


def result_of(place: Workplace, fill: Callable[[Path], None]) -> None:
    """A result whose pieces are all in order, whatever its archive is."""
    room = place / "result" / PIECES
    room.mkdir(parents=True, exist_ok=True)
    fill(place / ARCHIVE)
    with (place / ARCHIVE).open("rb") as file:
        Manifest(RESULT_FORMAT, {ARCHIVE: split(file, room, 1000)}).write(place / "result")


def holding(member: tarfile.TarInfo) -> Callable[[Path], None]:
    def fill(path: Path) -> None:
        with tarfile.open(path, "w:gz") as archive:
            archive.addfile(member)

    return fill


@pytest.mark.parametrize(
    "name",
    [
        *("../ledger.jsonl", "a/b.py", "a", "/etc/ledger.jsonl"),
        *("references/a.py", "references/a/b.json", "references"),
    ],
)
def test_an_archive_that_holds_anything_else_is_refused(workplace: Workplace, name: str) -> None:
    result_of(workplace, holding(tarfile.TarInfo(name)))
    with pytest.raises(UserError, match="which no result does"):
        collected(workplace)


def test_an_archive_with_a_link_or_none_at_all_is_refused(workplace: Workplace) -> None:
    link = tarfile.TarInfo("a/ledger.jsonl")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    result_of(workplace, holding(link))
    with pytest.raises(UserError, match="not a file"):
        collected(workplace)
    result_of(workplace, lambda path: path.write_bytes(b"no archive") and None)
    with pytest.raises(UserError, match="not the archive of a result"):
        collected(workplace)
    Manifest(RESULT_FORMAT).write(workplace / "result")
    with pytest.raises(UserError, match=f"{MANIFEST} does not name {ARCHIVE}"):
        collected(workplace)
