"""A job whose files are many pieces: checked, joined and worked off where only torch is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests import drawing
from tests.bench.rig import cell, check_whole, run_all
from tests.run.public_method import TINTED, write_tint
from tests.workplace import Workplace
from understudy.bench.away import fit_jobs as away
from understudy.bench.away.collect import collect
from understudy.bench.away.job import FORMAT, FitJob
from understudy.bench.away.joining import files_needed, join_files, survey
from understudy.bench.away.manifest import MANIFEST, PIECES, Manifest
from understudy.bench.away.pack import Moved, carried_weights, pack
from understudy.bench.away.packed_files import PackedFiles
from understudy.bench.suite.cell import Cell
from understudy.bench.work.workspace import Workspace
from understudy.data.load import load
from understudy.data.record_arrays import read_arrays
from understudy.data.weights import given_weights
from understudy.errors import UserError
from understudy.progress import Silent

ROOT = Path(__file__).parents[3]
TINTS = {"warm": 0.8, "cold": 0.3}
TINY = 100
"""Bytes of a piece: the records of a test are some tens of these."""


def packed(place: Workplace, *cells: Cell, size: int = TINY) -> list[Moved]:
    return pack(cells, Workspace(place / "bench"), place / "job", place.home, Silent(), size)


def bare(place: Workplace, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.bench.away.bare_away", str(place / "job"), *words],
        cwd=place.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def pieces(place: Workplace) -> list[Path]:
    return sorted((place / "job" / PIECES).iterdir())


def needed(place: Workplace) -> frozenset[str]:
    return files_needed(away.job_folders(place / "job"))


def checked(place: Workplace, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = away.main([str(place / "job"), "--check"])
    return code, capsys.readouterr().out.splitlines()


def test_many_pieces_travel_apart_are_joined_on_a_bare_machine_and_come_home(
    workplace: Workplace,
) -> None:
    mine = cell(workplace)
    packed(workplace, mine)
    assert len(pieces(workplace)) > 10
    assert all(path.stat().st_size <= TINY for path in pieces(workplace))
    away_from_here = workplace / "travelling"
    away_from_here.mkdir()
    late = pieces(workplace)[::3]
    for path in late:
        path.rename(away_from_here / path.name)
    said = bare(workplace, "--check")
    assert said.returncode == 2, said.stderr
    assert said.stdout.count("\nmissing ") == len(late)
    assert f"bring what is missing or damaged into {workplace / 'job'}: {len(late)}" in said.stdout
    assert bare(workplace).returncode == 2
    assert not list(workplace.folder.glob("job/cells/*/run")), "nothing was begun"
    for path in late:
        (away_from_here / path.name).rename(path)
    assert bare(workplace, "--check").returncode == 0
    done = bare(workplace, "--drop-pieces", "--result", str(workplace / "result"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert pieces(workplace) == []
    assert bare(workplace, "--check").stdout.endswith("\nnothing is missing.\n")
    (moved,) = collect(workplace / "result", Workspace(workplace / "bench"), workplace.home)
    assert moved.done
    assert run_all(workplace, mine)[0].ok
    check_whole(workplace, cells=1)


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_every_piece_that_is_missing_or_damaged_is_named(
    workplace: Workplace, capsys: pytest.CaptureFixture[str], harm: str
) -> None:
    packed(workplace, cell(workplace), size=300)
    assert len(pieces(workplace)) > 5
    for path in pieces(workplace):
        whole = path.read_bytes()
        if harm == "missing":
            path.unlink()
        else:
            path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        code, lines = checked(workplace, capsys)
        assert code == 2
        (line,) = [line for line in lines if line.startswith(harm)]
        assert path.name in line
        assert away.main([str(workplace / "job")]) == 2
        said = capsys.readouterr().err
        assert f"is {harm}: bring {path.name}" in said
        assert said.count("\n") == 1
        path.write_bytes(whole)
    assert checked(workplace, capsys)[0] == 0


def test_renamed_and_extra_pieces_are_named(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    packed(workplace, cell(workplace))
    path = pieces(workplace)[1]
    (path.parent / "other.txt").write_text("not of this job")
    code, lines = checked(workplace, capsys)
    assert code == 0, "what is extra does no harm"
    assert "unknown  other.txt: no piece of this job" in lines
    path.rename(path.with_name("part-2.piece"))
    code, lines = checked(workplace, capsys)
    assert code == 2
    assert "unknown  part-2.piece: no piece of this job" in lines
    assert any(line.startswith(f"missing  {path.name}") for line in lines)


def test_a_joined_file_that_was_damaged_is_joined_again_or_asks_for_its_pieces(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    packed(workplace, cell(workplace))
    (name,) = needed(workplace)
    path = workplace / "job" / name
    join_files(workplace / "job", [name])
    whole = path.read_bytes()
    path.write_bytes(whole[::-1])
    join_files(workplace / "job", [name], drop=True)
    assert path.read_bytes() == whole
    path.write_bytes(whole[::-1])
    assert checked(workplace, capsys)[0] == 2
    with pytest.raises(UserError, match=rf"piece 1 of \d+ of {name} is missing"):
        join_files(workplace / "job", [name])


def test_pieces_are_dropped_when_no_other_file_needs_them(tmp_path: Path) -> None:
    """Two files with a piece in common: it stays until both are joined."""
    files = PackedFiles.open(tmp_path / "job", 4)
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"same" + name.encode())
    one, two = (files.add_weights(tmp_path / name) for name in ("one", "two"))
    room = files.root / PIECES
    assert len(list(room.iterdir())) == 3
    join_files(files.root, [one], drop=True)
    assert len(list(room.iterdir())) == 2
    join_files(files.root, [one, two], drop=True)
    assert list(room.iterdir()) == []
    assert (files.root / two).read_bytes() == b"sametwo"


def test_joining_goes_on_after_a_kill(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(workplace, cell(workplace))
    from understudy.bench.away import pieces as module

    read = module._chunks

    def stops(piece: module.Piece, room: Path, words: str) -> Iterator[bytes]:
        if words.startswith("piece 5 "):
            raise KeyboardInterrupt
        return read(piece, room, words)

    with monkeypatch.context() as patch:
        patch.setattr(module, "_chunks", stops)
        with pytest.raises(KeyboardInterrupt):
            join_files(workplace / "job", needed(workplace), drop=True)
    assert not list(workplace.folder.glob("job/records/*"))
    assert survey(workplace / "job").lacking == 0, "no piece is dropped early"
    assert away.main([str(workplace / "job"), "--drop-pieces"]) == away.OK


def test_jobs_are_the_owners_and_share_their_pieces(workplace: Workplace) -> None:
    packed(workplace, cell(workplace), cell(workplace, epsilon=2.0), cell(workplace, samples=7))
    assert len(list((workplace / "job/cells").iterdir())) == 2, "one for each fit"
    (file,) = Manifest.read(workplace / "job", FORMAT).files.values()
    assert {piece.name for piece in file.pieces} == {path.name for path in pieces(workplace)}
    assert away.main([str(workplace / "job")]) == away.OK
    for path in (workplace / "job").rglob("*"):
        if path.relative_to(workplace / "job").parts[0] != "cells":
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert (workplace / "job").stat().st_mode & 0o777 == 0o700


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    records = load("digits").part("train").select(range(9))
    files = PackedFiles.open(tmp_path / "job", 100)
    name = files.add_records(records)
    assert files.add_records(records) == name
    back = read_arrays(join_files(files.root, [name]).path(name), records.schema)
    assert (back.features == records.features).all()
    assert (back.labels == records.labels).all()
    assert back.units is None


def test_what_a_killed_packing_left_is_deleted(tmp_path: Path) -> None:
    """It may hold private records, whole."""
    files = PackedFiles.open(tmp_path / "job")
    left = files.root / ".new/whole"
    left.parent.mkdir()
    left.write_bytes(b"private")
    files.add_records(load("digits").part("train").select(range(9)))
    assert not left.parent.exists()


def test_weights_travel_by_name_with_what_is_told_of_them(workplace: Workplace) -> None:
    packed(workplace, cell(workplace))
    (workplace / "net.safetensors").write_bytes(os.urandom(3 * TINY + 1))
    files = PackedFiles.open(workplace / "job", TINY)
    weights = given_weights(str(workplace / "net.safetensors"))
    entry = carried_weights(files, weights)
    assert entry["told"] == weights.to_json()
    (folder,) = away.job_folders(workplace / "job")
    job = replace(FitJob.read(folder), weights={"encoder": entry})
    (folder / "job.json").write_text(json.dumps(job.to_json()))
    assert FitJob.read(folder) == job
    public = away.method_inputs(job, join_files(files.root, job.files), "cpu").public
    assert public.weights.keys() == {"encoder"}
    found = public.weights["encoder"]
    assert found == replace(weights, path=found.path)
    assert found.path.read_bytes() == weights.path.read_bytes()
    assert found.path.suffix == ".safetensors"


def test_a_job_without_public_records_has_no_place_that_outlasts_it(workplace: Workplace) -> None:
    """Other jobs would find there what was made of a charged release."""
    packed(workplace, cell(workplace))
    (folder,) = away.job_folders(workplace / "job")
    job = FitJob.read(folder)
    public = away.method_inputs(job, join_files(workplace / "job", job.files), "cpu").public
    assert (public.cache, dict(public.records)) == (None, {})


def test_a_method_is_fitted_away_with_its_public_inputs(workplace: Workplace) -> None:
    """Each under its own name, and stated in ledger and claim as at home."""
    drawing.class_folder(workplace / "photos")
    tints = {name: write_tint(workplace / f"{name}.npz", t) for name, t in TINTS.items()}
    weights = tuple(f"{name}={path}" for name, path in tints.items())
    mine = cell(
        workplace,
        TINTED,
        dataset=str(workplace / "photos"),
        public="faces=digits",
        weights=weights,
        settings=(),
        limit=None,
        epsilon=8.0,
    )
    (moved,) = packed(workplace, mine, size=4096)
    assert moved.done, moved.words
    for path in tints.values():
        path.unlink()
    assert away.main([str(workplace / "job"), "--device", "cpu"]) == 0
    (moved,) = collect(workplace / "job", Workspace(workplace / "bench"), workplace.home)
    assert moved.done, moved.words
    (made,) = workplace.folder.glob("bench/**/means.safetensors")
    means = load_file(made)["means"]
    assert (means[0] == np.float32(TINTS["warm"])).all()
    assert (means[1:] == np.float32(TINTS["cold"])).all()
    (ledger,) = workplace.folder.glob("bench/**/ledger.jsonl")
    inputs = json.loads(ledger.read_text().splitlines()[0])["body"]["run"]["public_inputs"]
    assert [one["use"] for one in inputs] == ["faces", "warm", "cold"]


def test_only_joined_files_can_be_read(tmp_path: Path) -> None:
    files = PackedFiles.open(tmp_path / "job")
    with pytest.raises(UserError, match="was not joined"):
        join_files(files.root, []).path("records/other.npz")


def test_a_job_of_an_earlier_format_says_to_pack_again(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    packed(workplace, cell(workplace))
    (path,) = workplace.folder.glob("job/cells/*/job.json")
    whole = path.read_text()
    path.write_text(whole.replace(FORMAT, "understudy-job/1"))
    with pytest.raises(
        UserError, match="'understudy-job/1', not 'understudy-job/2'; pack it again"
    ):
        FitJob.read(path.parent)
    path.write_text(whole)
    (workplace / "job" / MANIFEST).unlink()
    assert away.main([str(workplace / "job"), "--check"]) == 2
    assert "pack that one again" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"holds a job of version 0\.1; choose another folder"):
        PackedFiles.open(workplace / "job")


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_a_cell_that_is_missing_or_damaged_is_named(
    workplace: Workplace, capsys: pytest.CaptureFixture[str], harm: str
) -> None:
    """A setting that was changed on the way would be fitted as if the owner had chosen it."""
    packed(workplace, cell(workplace), cell(workplace, epsilon=2.0))
    path = next(workplace.folder.glob("job/cells/*-epsilon-2-*/job.json"))
    if harm == "missing":
        path.unlink()
    else:
        path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    code, lines = checked(workplace, capsys)
    name = path.relative_to(workplace / "job")
    assert code == 2
    assert [line for line in lines if line.startswith(harm)] == [f"{harm:<8} {name}"]
    assert away.main([str(workplace / "job")]) == 2
    assert f"{name} of {workplace / 'job'} is {harm}: bring it again" in capsys.readouterr().err
    assert not list(workplace.folder.glob("job/cells/*/run"))
    assert away.main([str(workplace / "job"), "--cells", "*-epsilon-1-*"]) == away.OK


def changed(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_manifest_that_names_what_it_must_not_is_refused(workplace: Workplace) -> None:
    packed(workplace, cell(workplace))
    path = workplace / "job" / MANIFEST
    whole = path.read_text()
    (described,) = json.loads(whole)["files"].values()
    for name in ("../secret", "/etc/passwd", "records/../../x", ".lock", ""):
        changed(path, files={name: described})
        with pytest.raises(UserError, match="is damaged"):
            join_files(workplace / "job", [name])
    changed(path, files={})
    with pytest.raises(UserError, match=r"manifest.json does not name records/"):
        survey(workplace / "job")
    changed(path, format="understudy-job/3")
    with pytest.raises(UserError, match="has format 'understudy-job/3'"):
        join_files(workplace / "job", [])
    path.write_text(whole[:-9])
    with pytest.raises(UserError, match="is damaged"):
        join_files(workplace / "job", [])


def test_the_command_line_takes_a_piece_size(workplace: Workplace) -> None:
    workplace.run("bench", "pack", "digits", "--piece-size", "0").refused("--piece-size")
