"""A full disk, at every durable write: one sentence, nothing half-written, and it goes on."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests import drawing
from tests.workplace import SMALL_GAN, SMALL_MERF, Workplace
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import ledger_plan, spent_uses
from understudy.release.verify import verify
from understudy.run.folder import RunFolder

RUNS = {
    "one-shot": (*SMALL_MERF, "--epsilon", "1", "-o", "out"),
    "DP-SGD": (*SMALL_GAN, "--set", "steps=3", "--epsilon", "1", "-o", "out"),
}


class FullDisk:
    """Lets so many writes through to the disk and refuses every later one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int | None = None) -> None:
        self.writes = 0
        real = os.fsync

        def fsync(descriptor: int) -> None:
            self.writes += 1
            if room is not None and self.writes > room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)


def durable_writes(place: Workplace, words: tuple[str, ...]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        disk = FullDisk(patch)
        place.run("synthesize", "photos", *words).succeeded()
    return disk.writes


def fail_and_go_on(place: Workplace, words: tuple[str, ...], room: int) -> None:
    """Fill the disk after `room` writes, look at what is there, then resume with space."""
    with pytest.MonkeyPatch.context() as patch:
        FullDisk(patch, room)
        said = place.run("synthesize", "photos", *words)
    if said.code == 0:
        assert (place / "out").exists(), "only what follows the release may have failed"
        return
    assert "No space left" in said.err or "disk is full" in said.err, said.err
    said.refused()
    assert not (place / "out").exists() or verify(place / "out").ok
    assert not [p for p in place.folder.iterdir() if "partial" in p.name or p.name == ".out.new"]
    assert_sound(place / "runs/out")
    begun = (place / "runs/out").exists()
    place.run("synthesize", "photos", *words, *(("--resume",) if begun else ())).succeeded()
    assert verify(place / "out").ok
    assert len(place.book("enter")) == 1, "the run is one run, however often it stopped"


def assert_sound(run: Path) -> None:
    """A run folder that is there has a plan; its ledger, if any, reads and is within it."""
    if not run.exists():
        return
    assert (run / "plan.json").exists()
    if (run / "ledger.jsonl").exists():
        entries = read_ledger(run / "ledger.jsonl")
        plan = ledger_plan(entries)
        for name, uses in spent_uses(entries).items():
            assert uses <= plan.mechanism(name).uses


def start_again(place: Workplace) -> None:
    for name in ("out", "runs", "home"):
        shutil.rmtree(place / name, ignore_errors=True)


@pytest.mark.parametrize("kind", RUNS)
def test_some_moments(workplace: Workplace, kind: str) -> None:
    drawing.class_folder(workplace / "photos")
    count = durable_writes(workplace, RUNS[kind])
    assert count > 20
    for room in np.linspace(1, count - 1, 4).astype(int):
        start_again(workplace)
        fail_and_go_on(workplace, RUNS[kind], int(room))


@pytest.mark.audit
@pytest.mark.skipif("UNDERSTUDY_AUDIT" not in os.environ, reason="every moment: make audit")
@pytest.mark.parametrize("kind", RUNS)
def test_every_moment(workplace: Workplace, kind: str) -> None:
    drawing.class_folder(workplace / "photos")
    for room in range(durable_writes(workplace, RUNS[kind])):
        start_again(workplace)
        fail_and_go_on(workplace, RUNS[kind], room)


def test_a_folder_is_on_the_disk_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut a name that is there has its content."""
    flushed: list[str] = []
    real_fsync, real_rename = os.fsync, Path.rename

    def fsync(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real_fsync(descriptor)

    def rename(self: Path, target: Path) -> Path:
        flushed.append("renamed")
        return real_rename(self, target)

    def fill(folder: Path) -> None:
        (folder / "inner").mkdir()
        (folder / "inner" / "weights").write_bytes(b"1")
        (folder / "facts.json").write_bytes(b"{}")

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    RunFolder(tmp_path).write_whole(tmp_path / "synthesizer", fill)
    before, after = flushed[: flushed.index("renamed")], flushed[flushed.index("renamed") + 1 :]
    assert {"weights", "facts.json", "inner", ".synthesizer.new"} <= set(before)
    assert after == [tmp_path.name]


def test_samples_that_do_not_fit(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files are flushed once they are written; they too come whole or not at all."""
    drawing.class_folder(workplace / "photos")

    def savez(path: Path, **arrays: object) -> None:
        del arrays
        Path(path).write_bytes(b"half a file")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    words = ("synthesize", "photos", *RUNS["one-shot"])
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", savez)
        workplace.run(*words).refused("disk is full", "samples.npz")
    assert not (workplace / "runs/out/samples").exists()
    assert not (workplace / "out").exists()
    workplace.run(*words, "--resume").succeeded()
    assert verify(workplace / "out").ok
