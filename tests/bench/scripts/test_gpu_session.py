"""A job carried to a machine and back in several calls, by `benchmarks/gpu_session.sh`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.bench.rig import cell
from tests.scripts import FOLDER
from tests.workplace import Workplace
from understudy.bench.away.collect import collect
from understudy.bench.away.pack import pack
from understudy.bench.work.workspace import Workspace
from understudy.progress import Silent

LOAD = 1500


def session(place: Workplace, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(FOLDER / "gpu_session.sh"), *words],
        cwd=place.folder,
        env={**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1", **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_loads_there_and_parts_back(workplace: Workplace) -> None:
    workspace = Workspace(workplace / "bench")
    pack([cell(workplace)], workspace, workplace / "job", workplace.home, Silent(), 1000)
    packed = len(files(workplace / "job")) - 1  # all but the lock
    said = session(workplace, "loads", "carry", "job", LOAD=str(LOAD))
    loads = sorted((workplace / "carry").iterdir())
    assert said.stdout == f"{len(loads)} loads in carry\n", said.stderr
    assert len(loads) > 2
    assert sum(len(files(load)) for load in loads) == packed
    for load in loads:
        assert len(files(load)) == 1 or sum(f.stat().st_size for f in files(load)) <= LOAD
    assert session(workplace, "loads", "carry", "job").returncode == 2, "nothing is mixed"
    for load in (loads[0], *loads[:0:-1]):
        there = session(workplace, "load", f"carry/{load.name}", "there")
        assert there.returncode == 0, there.stderr
        assert ("nothing is missing." in there.stdout) == (load is loads[1])
    assert (workplace / "there").stat().st_mode & 0o777 == 0o700

    done = session(workplace, "cells", "out", "there", "*", DEVICE="cpu", SAMPLES="none")
    assert done.stdout.endswith("this is 1 of 1 parts of the result\n"), done.stderr
    again = session(workplace, "back", "again", "there", "1")
    assert again.returncode == 0
    assert len(files(workplace / "again")) == len(files(workplace / "out")) > 1
    (moved,) = collect(workplace / "out/result", workspace, workplace.home)
    assert moved.done


def test_a_large_result_comes_back_in_parts_of_four(workplace: Workplace) -> None:
    room = workplace / "job.result/pieces"
    room.mkdir(parents=True)
    (room.parent / "manifest.json").write_text("{}")
    names = [f"{number}.piece" for number in range(9)]
    for name in names:
        (room / name).write_text(name)
    came: list[str] = []
    for number in "123":
        said = session(workplace, "back", "out", "job", number)
        assert said.stdout == f"this is {number} of 3 parts of the result\n"
        came += sorted(p.name for p in (workplace / "out/result/pieces").iterdir())
        shutil.rmtree(workplace / "out")
    assert came == names
