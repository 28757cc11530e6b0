"""Bringing home figures of classifiers that another machine trained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from understudy.bench.away.classify_job import CLASSIFIED, REFERENCES, Classified
from understudy.bench.away.pack import Moved
from understudy.bench.work.cell_folder import FIGURES, CellFolder
from understudy.bench.work.phase_keys import EVALUATE_VERSION, Keys
from understudy.bench.work.workspace import Workspace
from understudy.errors import UserError
from understudy.evaluation.classifier_figures import records_digest
from understudy.evaluation.references import References
from understudy.run.folder import RunFolder


def collect_references(source: Path, workspace: Workspace) -> None:
    """Figures of real records, for every cell that asks for them."""
    home = References(workspace.references, EVALUATE_VERSION)
    for path in sorted((source / REFERENCES).glob("*.json")):
        home.take(path)


def collect_figures(result: RunFolder, title: str, workspace: Workspace) -> Iterator[Moved]:
    """Take the figures that lie in one result; the fit they belong to was taken before.

    Whether they are about the records and the protocol of the evaluation is checked again,
    against the records themselves, when they are used.
    """
    for path in sorted((result.path / CLASSIFIED).glob("*.json")):
        found = Classified.read(path)
        folder, keys = _cell_of(found.key, title, workspace)
        with folder.locked():
            yield _take(found, folder, keys, f"classifiers of {title}")


def _take(found: Classified, folder: CellFolder, keys: Keys, title: str) -> Moved:
    """The caller holds the lock."""
    if folder.record("evaluate", keys) is not None:
        return Moved(title, False, "are evaluated already")
    if not folder.sampled(keys).samples.exists():
        return Moved(title, False, "have no samples here; collect those first")
    if records_digest(folder.sampled(keys).load_samples()) != found.binding.synthetic:
        raise UserError(f"the {title} learned from other samples than those that lie here.")
    room = folder.evaluated(keys)
    room.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (room.path / FIGURES).exists():
        before = Classified.read(room.path / FIGURES)
        found.binding.check(before.binding, f"the result with the {title}")
        if before.done:
            return Moved(title, False, "are here already")
        found = found.with_more(before.figures, before.done)
    found.write(room.path / FIGURES)
    tail = "" if found.done else "; not all of them, the rest is trained here"
    return Moved(title, True, f"{len(found.figures)} figures{tail}")


def _cell_of(key: str, title: str, workspace: Workspace) -> tuple[CellFolder, Keys]:
    """The cell whose evaluation has this key."""
    for folder in map(CellFolder, sorted((workspace.path / "cells").glob("*"))):
        for cell in folder.cells():
            if cell["keys"]["evaluate"] == key:
                return folder, Keys(**cell["keys"])
    raise UserError(
        f"the classifiers of {title} are not of this workspace: no evaluation here has their "
        "key; give the workspace that packed them with --work."
    )
