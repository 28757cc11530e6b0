"""Bringing home what another machine fitted.

It must follow the very plan that was packed. Of two fits of one plan only the first is
taken, and the second is named for what it is: noise drawn twice.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from understudy.bench.away.classify_job import REFERENCES
from understudy.bench.away.collect_figures import collect_figures, collect_references
from understudy.bench.away.manifest import MANIFEST
from understudy.bench.away.pack import Moved, packed_facts, read_packed
from understudy.bench.away.result import ARCHIVE, COMPACT, join_result
from understudy.bench.work.cell_folder import AWAY_RECORD, PACKED, CellFolder
from understudy.bench.work.workspace import Workspace
from understudy.durable import replace_durably, write_durably
from understudy.errors import PrivacyError, UserError
from understudy.methods.registry import get_method
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import ledger_plan
from understudy.run.books import open_book
from understudy.run.config import read_config
from understudy.run.folder import RunFolder

COLLECTED = "collected.json"
"""In a run folder: which fit of its plan came home."""


def collect(source: Path, workspace: Workspace, home: Path | None) -> list[Moved]:
    """Install what came home: a job folder that was worked on, or a result of it."""
    known = {
        folder.run.read_plan()[0].ident: folder
        for folder in map(CellFolder, sorted((workspace.path / "cells").glob("*")))
        if (folder.run.path / PACKED).exists()
    }
    moved: list[Moved] = []
    with _results(source, workspace) as (root, results):
        for result in results:
            title = result.path.parent.name if result.path.name == "run" else result.path.name
            if (result.path / "plan.json").exists():
                moved.append(_collect_one(result, title, known, home))
            moved += collect_figures(result, title, workspace)
        collect_references(root, workspace)
    return moved


def _collect_one(
    result: RunFolder, title: str, known: dict[str, CellFolder], home: Path | None
) -> Moved:
    if not (result.path / "fit.json").exists():
        return Moved(title, False, "is not finished; run it again where it is")
    ident = result.read_plan()[0].ident
    if ident not in known:
        raise UserError(
            f"{title} is not of this workspace: no packed run here has its plan; give the "
            "workspace that packed it with --work."
        )
    folder = known[ident]
    with folder.locked():
        head = _check_ledger(result, folder, title)
        _check_whole(result, folder, title)
        _check_book(folder, home)
        _bind(result, folder, head, title)
        if _has_fit(folder):
            return Moved(title, False, "is here already")
        _install(result, folder)
        _finish(result, folder)
    return Moved(title, True, "is here now")


def _check_ledger(result: RunFolder, folder: CellFolder, title: str) -> str:
    """The head of a ledger that follows the packed plan to its end."""
    plan, run = folder.run.read_plan()
    entries = read_ledger(result.ledger)
    if ledger_plan(entries) != plan or entries[0].body["run"] != run:
        raise PrivacyError(f"the ledger of {title} follows another plan than was packed.")
    if entries[-1].kind != "close":
        raise PrivacyError(f"the ledger of {title} is not closed: its fit is not finished.")
    return entries[-1].hash


def _check_whole(result: RunFolder, folder: CellFolder, title: str) -> None:
    """Before the plan is bound to this fit: another fit of it could never come home."""
    if not result.synthesizer.is_dir():
        raise UserError(f"{title} holds no synthesizer; copy the whole result here again.")
    if _leaves_records(folder) and not result.samples.is_dir():
        raise UserError(
            f"{title} holds none of the records that left; copy the whole result here again."
        )
    if result.read_json("fit.json").get("key") != read_packed(folder).keys.fit:
        raise UserError(f"{title} was fitted for another key than was packed.")


def _leaves_records(folder: CellFolder) -> bool:
    """Whether the fit itself let records out, which nothing at home could make again."""
    return get_method(read_config(folder.run.path).method).info.maps is not None


def _check_book(folder: CellFolder, home: Path | None) -> None:
    """Only where the plan was packed: a copy of the workspace would take a second fit of it."""
    plan, _ = folder.run.read_plan()
    book = open_book(read_config(folder.run.path), home)
    if all(run.run_id != plan.ident for run in book.runs()):
        raise UserError(
            f"the account book {book.path} does not know the run in {folder.run.path}; give the "
            "book that it began with, by --home or UNDERSTUDY_HOME."
        )
    book.enter(plan.ident, plan, facts=packed_facts(folder, read_packed(folder).token))


def _bind(result: RunFolder, folder: CellFolder, head: str, title: str) -> None:
    """From the first arrival on, the plan is this fit's; another one is noise drawn twice.

    The ledgers of two undisturbed fits are alike, so a fit is known by what it fitted too.
    """
    this = {"ledger": head, "synthesizer": _digest(result.synthesizer)}
    if not (folder.run.path / COLLECTED).exists():
        folder.run.write_json(COLLECTED, this)
        return
    before = folder.run.read_json(COLLECTED)
    if before != this:
        raise PrivacyError(
            f"this plan was fitted twice: {title} came home before as "
            f"{before['synthesizer'][:16]}, and now as {this['synthesizer'][:16]}; a plan is "
            "single-use, so this one is refused, and nothing of it may be shown to anybody."
        )


def _install(result: RunFolder, folder: CellFolder) -> None:
    """Everything but the record that makes it count."""
    run = folder.run
    if not run.ledger.exists():
        replace_durably(run.ledger, result.ledger.read_bytes())
    for name in ("owner.jsonl", "times.json", "synthesizer.json"):
        if (result.path / name).exists():
            write_durably(run.path / name, (result.path / name).read_bytes())
    run.write_whole(run.synthesizer, lambda new: _copy(result.synthesizer, new))
    if _leaves_records(folder):
        run.write_whole(run.samples, lambda new: _copy(result.samples, new))
    if (result.path / "sample.json").exists():
        kept = folder.sampled(read_packed(folder).keys)
        kept.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept.write_whole(kept.samples, lambda new: _copy(result.samples, new))
        kept.write_json(AWAY_RECORD, result.read_json("sample.json"))


def _finish(result: RunFolder, folder: CellFolder) -> None:
    folder.write_record("fit", read_packed(folder).keys, result.read_json("fit.json"))


def _has_fit(folder: CellFolder) -> bool:
    return folder.record("fit", read_packed(folder).keys) is not None


@contextmanager
def _results(source: Path, workspace: Workspace) -> Iterator[tuple[Path, list[RunFolder]]]:
    """Where a job folder or a result lies open, and the run folders in it."""
    if (source / "cells").is_dir():
        yield source, [RunFolder(p) for p in sorted((source / "cells").glob("*/run"))]
        return
    if not (source / MANIFEST).is_file():
        raise UserError(
            f"{source} is neither a job folder (with cells) nor a result (with {MANIFEST}); bring "
            "all of what --result wrote."
        )
    workspace.away.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=workspace.away) as name:
        archive, root = Path(name) / ARCHIVE, Path(name) / "open"
        join_result(source, archive)
        _unpack(archive, root)
        folders = sorted(p for p in root.glob("*") if p.name != REFERENCES)
        yield root, [RunFolder(p) for p in folders]


def _unpack(source: Path, target: Path) -> None:
    """Plain files under NAME/, of the kinds that a result holds; anything else is refused."""
    try:
        with tarfile.open(source, "r:gz") as archive:
            for member in archive:
                parts = Path(member.name).parts
                if ".." in parts or not _is_of_result(parts):
                    raise UserError(f"{source.name} holds {member.name!r}, which no result does.")
                if not (member.isfile() or member.isdir()):
                    raise UserError(f"{source.name} holds {member.name!r}, which is not a file.")
            archive.extractall(target, filter="data")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise UserError(f"{source.name} is not the archive of a result: {error}.") from error


def _is_of_result(parts: tuple[str, ...]) -> bool:
    if parts[0] == REFERENCES:
        return len(parts) == 2 and parts[1].endswith(".json")
    return len(parts) > 1 and parts[1] in COMPACT


def _digest(folder: Path) -> str:
    """Of every file in a folder, by name and content."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder)).encode()
        digest.update(len(name).to_bytes(8, "big") + name)
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True)
