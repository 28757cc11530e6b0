"""The workspace: what of a suite is done, as its files tell. There is no database.

`DIR/cells/<fit key>/` holds one fit and what was made of it, `DIR/evidence/` the results,
`DIR/away/` jobs for other machines, `DIR/sources.json` stamps of the owner's data,
`DIR/references/` classifiers of real records, which cells share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from understudy.bench.evidence.evidence import RunEvidence
from understudy.bench.evidence.index import EvidenceIndex
from understudy.bench.evidence.provenance import Provenance
from understudy.bench.evidence.shareable import dataset_name
from understudy.bench.suite.cell import Cell
from understudy.bench.suite.method_lookup import Lookup, is_declared_public
from understudy.bench.work.cell_folder import PACKED, PHASES, SHORT, CellFolder, Failure, Phase
from understudy.bench.work.phase_keys import Keys, phase_keys
from understudy.bench.work.phases import is_recorded
from understudy.bench.work.source_version import Source, SourceVersions


class State(StrEnum):
    """How far a cell is."""

    WAITING = "waiting"
    BEGUN = "begun"
    FITTED = "fitted"
    SAMPLED = "sampled"
    EVALUATED = "evaluated"
    DONE = "done"
    FAILED = "failed"
    AWAY = "away"


@dataclass(frozen=True)
class Standing:
    """One cell and where it stands. `failure` is the last one, for the present keys."""

    cell: Cell
    keys: Keys
    source: Source
    folder: CellFolder
    state: State
    failure: Failure | None = None

    @property
    def open_phases(self) -> tuple[Phase, ...]:
        return tuple(p for p in PHASES if self.folder.record(p, self.keys) is None)

    def to_json(self) -> dict[str, Any]:
        """For the owner: it may hold the words of errors."""
        return {
            "title": self.cell.title,
            "state": str(self.state),
            "cell": cell_to_json(self.cell),
            "keys": asdict(self.keys),
            "folder": str(self.folder.path),
            "reason": None if self.failure is None else self.failure.words,
        }


class Workspace:
    """A folder of cells, and the folder of evidence that they write to."""

    def __init__(self, path: Path, evidence: Path | None = None) -> None:
        self.path = path
        self.evidence = evidence or path / "evidence"
        self._sources = SourceVersions(path)

    @property
    def away(self) -> Path:
        return self.path / "away"

    @property
    def references(self) -> Path:
        return self.path / "references"

    def survey(self, cells: Sequence[Cell]) -> tuple[Standing, ...]:
        """Where every cell stands, by its present keys."""
        lookup = Lookup()
        return tuple(self.standing(cell, lookup) for cell in cells)

    def standing(self, cell: Cell, lookup: Lookup | None = None) -> Standing:
        source = self._sources.of(cell.dataset)
        keys = source.salted(phase_keys(cell, data=source.hash, lookup=lookup))
        return self.looked_at(cell, keys, source)

    def looked_at(self, cell: Cell, keys: Keys, source: Source) -> Standing:
        """Where a cell of these keys stands now."""
        folder = self.cell_folder(keys)
        if is_recorded(EvidenceIndex(self.evidence), evidence_name(cell, keys)):
            return Standing(cell, keys, source, folder, State.DONE)
        failure = folder.failure(keys)
        state = State.FAILED if failure is not None else _progress_of(folder, keys)
        return Standing(cell, keys, source, folder, state, failure)

    def cell_folder(self, keys: Keys) -> CellFolder:
        return CellFolder(self.path / "cells" / keys.fit[:SHORT])

    def known(self) -> Iterator[Standing]:
        """Every cell that was ever worked on here, by the keys that it had then."""
        for path in sorted((self.path / "cells").glob("*")):
            for found in CellFolder(path).cells():
                cell = cell_from_json(found["cell"])
                keys = Keys(**found["keys"])
                yield self.looked_at(cell, keys, Source(is_declared_public(cell.dataset)))


def evidence_name(cell: Cell, keys: Keys) -> str:
    """The name of the evidence that this cell leaves when it succeeds."""
    names = ("epsilon", "seed")
    config = {
        "dataset": dataset_name(cell.dataset),
        "method": cell.method_name,
        **{name: getattr(cell, name) for name in names},
    }
    nobody = Provenance("unknown", None, {}, {})
    return RunEvidence("", nobody, config, asdict(keys), False, None).name(set())


def cell_to_json(cell: Cell) -> dict[str, Any]:
    return {**asdict(cell), "settings": list(cell.settings)}


def cell_from_json(data: dict[str, Any]) -> Cell:
    return Cell(**{**data, "settings": tuple(data["settings"])})


def _progress_of(folder: CellFolder, keys: Keys) -> State:
    done = [folder.record(phase, keys) is not None for phase in PHASES]
    if not done[0]:
        if (folder.run.path / PACKED).exists():
            return State.AWAY
        return State.BEGUN if folder.run.path.exists() else State.WAITING
    if not done[1]:
        return State.FITTED
    return State.EVALUATED if done[2] else State.SAMPLED
