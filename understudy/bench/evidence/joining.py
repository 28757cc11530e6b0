"""Bring the evidence of one folder into another: two branches, two machines, one index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from understudy.bench.evidence.index import EvidenceIndex, NewFile
from understudy.bench.evidence.store import StoredFile, read_store
from understudy.errors import UserError


def join_evidence(source: Path, into: Path) -> tuple[Path, ...]:
    """Copy every file that `source` vouches for and `into` does not hold, byte for byte.

    All or none: a file that is not trusted, whose claim its own mechanisms do not bear out, or
    whose name is taken by another content, refuses the whole. What `source` once listed and no
    longer holds is not missed.
    """
    store = read_store(source, recompute=True)
    doubtful = [file.name for file in store.untrusted]
    if store.broken or doubtful:
        why = store.broken or f"not trusted: {', '.join(doubtful)}"
        raise UserError(f"evidence of {source} is not joined; {why}.")
    index = EvidenceIndex(into)

    def fill(taken: frozenset[str]) -> Sequence[NewFile]:
        del taken
        return [
            NewFile(file.name, file.kind, file.content)
            for file in store.files
            if not _held(index, file)
        ]

    return index.add(fill)


def _held(index: EvidenceIndex, file: StoredFile) -> bool:
    path = index.path(file.name)
    return path.exists() and path.read_bytes() == file.content
