"""What goes home of a job that was worked off: an archive in pieces, each a small file.

RESULT/manifest.json names the pieces in RESULT/pieces, as in a job. What comes back from some
machines may not be larger than 16 MiB a file, so a piece of it never is.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from understudy.bench.away.classify_job import CLASSIFIED, REFERENCES
from understudy.bench.away.job import FILE, FitJob
from understudy.bench.away.manifest import PIECES, Manifest, scratch_in
from understudy.bench.away.pieces import MEBIBYTE, join, split
from understudy.durable import OWNER_ONLY, new_file
from understudy.errors import UserError

RESULT_FORMAT = "understudy-result/1"
RESULT_PIECE_SIZE = 15 * MEBIBYTE
ARCHIVE = "result.tar.gz"

SAMPLES = ("sample.json", "samples")
COMPACT = (
    *("plan.json", "ledger.jsonl", "synthesizer", "synthesizer.json", "owner.jsonl"),
    *("times.json", "fit.json", CLASSIFIED, *SAMPLES),
)
"""What of a finished run is carried home; its checkpoints are not needed any more."""


def check_result_place(target: Path) -> None:
    """Refuse a place that holds anything but an earlier result, before hours of work."""
    if target.is_file() or (target.is_dir() and any(target.iterdir()) and not is_result(target)):
        raise UserError(f"--result {target} holds something else; choose another folder.")


def is_result(folder: Path) -> bool:
    try:
        Manifest.read(folder, RESULT_FORMAT)
    except UserError:
        return False
    return True


def write_result(job: Path, folders: Sequence[Path], target: Path, *, samples: bool) -> None:
    """Everything that is finished, in place of an earlier result; only its owner may read it.

    samples: whether those that were made there go home too. Without them they are made at home,
    by the synthesizer, which always goes home, as its ledger does. Records that left through a
    `RecordMap` cannot be made again, and always go home.
    """
    check_result_place(target)
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not is_result(target):
        Manifest(RESULT_FORMAT).write(target)  # from now on it is known as one
    (target / PIECES).mkdir(exist_ok=True, mode=0o700)
    finished = [folder for folder in folders if _is_finished(folder)]
    with scratch_in(target) as room:
        whole = room / ARCHIVE
        with new_file(whole, OWNER_ONLY) as file:
            _archive(job, finished, samples, file)
        with whole.open("rb") as source:
            found = split(source, target / PIECES, RESULT_PIECE_SIZE)
        manifest = Manifest(RESULT_FORMAT, {ARCHIVE: found})
        manifest.write(target)
        _keep_only(manifest, target)
    left = len(folders) - len(finished)
    tail = f"; {left} not finished are not in it" if left else ""
    print(f"wrote {target}, {len(found.pieces)} pieces{tail}", flush=True)


def join_result(source: Path, target: Path) -> None:
    """The archive of a result, the very one that was written; else a sentence says which piece
    is missing or damaged."""
    manifest = Manifest.read(source, RESULT_FORMAT)
    join(manifest.file(ARCHIVE, source), source / PIECES, target, ARCHIVE)


def _is_finished(folder: Path) -> bool:
    return any((folder / "run" / name).exists() for name in ("fit.json", CLASSIFIED))


def _leaves_records(folder: Path) -> bool:
    """Whether its samples are private records that left during the fit."""
    return (folder / FILE).exists() and FitJob.read(folder).load_method().info.maps is not None


def _archive(job: Path, folders: Sequence[Path], samples: bool, file: BinaryIO) -> None:
    with (
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=1, mtime=0) as smaller,
        tarfile.open(fileobj=smaller, mode="w") as archive,
    ):
        for path, name in _members(job, folders, samples):
            archive.add(path, name)


def _members(job: Path, folders: Sequence[Path], samples: bool) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        left_out = () if samples or _leaves_records(folder) else SAMPLES
        for name in COMPACT:
            if (folder / "run" / name).exists() and name not in left_out:
                yield folder / "run" / name, f"{folder.name}/{name}"
    for path in sorted((job / REFERENCES).glob("*.json")):
        yield path, f"{REFERENCES}/{path.name}"


def _keep_only(manifest: Manifest, target: Path) -> None:
    """Remove what an earlier result left."""
    named = {piece.name for piece in manifest.pieces()}
    for path in (target / PIECES).iterdir():
        if path.name not in named:
            path.unlink()
