"""The files of a job where it is worked off: looked at, and joined from their pieces."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from understudy.bench.away.classify_job import ClassifyJob
from understudy.bench.away.job import FILE, FORMAT, FitJob
from understudy.bench.away.manifest import PIECES, Manifest, alone_in
from understudy.bench.away.pieces import FileInPieces, FileState, join
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
    """What there is of a job.

    lines: one for each file in pieces, and for all that is missing or damaged.
    lacking: how many files, pieces among them, are missing or damaged.
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


def check_documents(job: Path, cells: str = "*") -> None:
    """Refuse cells, by a pattern as of files, whose own description is not what was packed."""
    for name, state in _documents(Manifest.read(job, FORMAT), job, cells).items():
        if state is not FileState.THERE:
            raise UserError(f"{name} of {job} is {state}: bring it again from where it was packed.")


def survey(job: Path, cells: str = "*") -> Survey:
    """Say of what these cells need whether it is there, or can be joined, or what is lacking."""
    manifest, room = Manifest.read(job, FORMAT), job / PIECES
    documents = _documents(manifest, job, cells)
    lines = [f"{s:<8} {n}" for n, s in documents.items() if s is not FileState.THERE]
    lacking = set(lines)
    names = manifest.files.keys() if lacking else files_needed((job / n).parent for n in documents)
    for name in sorted(names):
        file = manifest.file(name, job)
        if file.state_at(job / name) is FileState.THERE:
            lines.append(f"joined   {name}")
            continue
        bad = _lacking_pieces(file, room, name)
        there = sum(piece.name not in bad for piece in file.pieces)
        lines += [f"pieces   {name}: {there} of {len(file.pieces)} are there", *bad.values()]
        lacking |= bad.keys()
    known = {piece.name for piece in manifest.pieces()}
    strange = sorted(p.name for p in room.glob("*") if p.name not in known)
    lines += [f"unknown  {name}: no piece of this job" for name in strange]
    return Survey(tuple(lines), len(lacking))


def cells_named(pattern: str, names: Iterable[str], job: Path) -> list[str]:
    """Those cells of a job that fit a pattern as of files; none is an error."""
    found = sorted(set(names))
    if not found:
        raise UserError(f"{job} holds no jobs; make some with understudy bench pack.")
    chosen = [name for name in found if fnmatchcase(name, pattern)]
    if not chosen:
        raise UserError(
            f"no cell of {job} is named like --cells {pattern}; there are {', '.join(found)}."
        )
    return chosen


def _documents(manifest: Manifest, job: Path, cells: str) -> dict[str, FileState]:
    """How each document of these cells lies there."""
    of = {name: PurePosixPath(name).parent.name for name in manifest.documents}
    chosen = cells_named(cells, of.values(), job)
    return {n: manifest.documents[n].state_at(job / n) for n, cell in of.items() if cell in chosen}


def _lacking_pieces(file: FileInPieces, room: Path, name: str) -> dict[str, str]:
    """A line for each piece that is missing or damaged, by the piece's name."""
    of = len(file.pieces)
    return {
        piece.name: f"{state:<8} {piece.name}: piece {number} of {of} of {name}"
        for number, piece in enumerate(file.pieces, start=1)
        if (state := piece.state(room)) is not FileState.THERE
    }


def join_files(job: Path, names: Collection[str], *, drop: bool = False) -> JoinedFiles:
    """Join what is not joined yet, and check what is.

    drop: delete the pieces that no other file still needs, after each file.
    Killed at any moment, the same call goes on with the file that was being joined.
    """
    manifest, room = Manifest.read(job, FORMAT), job / PIECES
    with alone_in(job):
        for name in sorted(names):
            file, target = manifest.file(name, job), job / name
            if file.state_at(target) is not FileState.THERE:
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
