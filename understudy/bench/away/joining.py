"""The files of a job where it is worked off: looked at, and joined from their pieces."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from understudy.bench.away.classify_job import ClassifyJob
from understudy.bench.away.job import FILE, FORMAT, FitJob
from understudy.bench.away.manifest import PIECES, Manifest, alone_in
from understudy.bench.away.pieces import PieceState, join
from understudy.errors import UserError


@dataclass(frozen=True)
class JoinedFiles:
    """Files of a job that lie there whole: each had its digest when this was made.

    root: the job folder.
    """

    root: Path
    names: frozenset[str]

    def path(self, name: str) -> Path:
        if name not in self.names:
            raise UserError(f"{name} of {self.root} was not joined; name its cell by --cells.")
        return self.root / name


@dataclass(frozen=True)
class Survey:
    """What there is of some files of a job.

    lines: one for each file and for each piece that something is wrong with.
    lacking: how many pieces are missing or damaged.
    """

    lines: tuple[str, ...]
    lacking: int


def files_needed(folders: Iterable[Path]) -> frozenset[str]:
    """What the cells of a job read."""
    found: set[str] = set()
    for folder in folders:
        if (folder / FILE).exists():
            found |= FitJob.read(folder).files
        for job in ClassifyJob.all_of(folder):
            found |= set(job.records.values())
    return frozenset(found)


def survey(job: Path, names: Collection[str]) -> Survey:
    """Say of each file whether it is joined, or can be, and which pieces it lacks."""
    manifest, room = Manifest.read(job, FORMAT), job / PIECES
    lines, lacking = [], set()
    for name in sorted(names):
        file = manifest.file(name, job)
        if file.is_whole_at(job / name):
            lines.append(f"joined   {name}")
            continue
        states = [piece.state(room) for piece in file.pieces]
        there = sum(state is PieceState.THERE for state in states)
        lines.append(f"pieces   {name}: {there} of {len(states)} are there")
        for number, (piece, state) in enumerate(zip(file.pieces, states, strict=True), start=1):
            if state is not PieceState.THERE:
                lines.append(f"{state:<8} {piece.name}: piece {number} of {len(states)} of {name}")
                lacking.add(piece)
    known = {piece.name for piece in manifest.pieces()}
    strange = sorted(p.name for p in room.glob("*") if p.name not in known)
    lines += [f"unknown  {name}: no piece of this job" for name in strange]
    return Survey(tuple(lines), len(lacking))


def join_files(job: Path, names: Collection[str], *, drop: bool = False) -> JoinedFiles:
    """Join what is not joined yet, and check what is.

    drop: delete the pieces that no other file still needs, after each file.
    Killed at any moment, the same call goes on with the file that was being joined.
    """
    manifest, room = Manifest.read(job, FORMAT), job / PIECES
    with alone_in(job):
        for name in sorted(names):
            file, target = manifest.file(name, job), job / name
            if not file.is_whole_at(target):
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                join(file, room, target, name)
            if drop:
                _drop_pieces(manifest, job, name)
    return JoinedFiles(job, frozenset(names))


def _drop_pieces(manifest: Manifest, job: Path, name: str) -> None:
    """Delete the pieces of a joined file that no file needs that is not joined."""
    others = (file for other, file in manifest.files.items() if not (job / other).exists())
    needed = {piece for file in others for piece in file.pieces}
    for piece in set(manifest.files[name].pieces) - needed:
        (job / PIECES / piece.name).unlink(missing_ok=True)
