"""Is this the published dataset? Raw files and what was read from them, held against the facts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from understudy.data.entry import Entry, PartFacts
from understudy.data.sources.raw import Column, RawPart
from understudy.errors import UserError


def digests(part: RawPart, label: str) -> tuple[str, str]:
    """sha256 of all pixels, and of all label codes as bytes."""
    codes = bytes(int(value or 0) for value in part.columns[label].values)
    return hashlib.sha256(part.pixels.tobytes()).hexdigest(), hashlib.sha256(codes).hexdigest()


def require_published(entry: Entry, parts: Mapping[str, Mapping[str, Column]], place: str) -> None:
    """Refuse columns whose number of images, codes or classes are not the published ones.

    parts: the columns of each part. Codes must be arrays of whole numbers.
    """
    for part, known in entry.parts.items():
        if part not in parts:
            raise UserError(f"{place} has no {part} part of {entry.name}; {entry.where_from}.")
        for name, column in parts[part].items():
            _require_count(entry, part, len(column.values), place)
            _require_codes(entry, name, column, place)
        if entry.label is not None and known.per_class:
            _require_classes(entry, part, known, parts[part][entry.label], place)


def verdict(entry: Entry, folder: Path) -> str:
    """In words, for the provenance: are the raw files byte for byte the published ones?"""
    here = [name for name in entry.md5 if (folder / name).is_file()]
    other = [name for name in here if _md5(folder / name) != entry.md5[name]]
    if not here:
        return "raw files"
    if not other:
        return "raw files, identical to the published ones"
    return f"raw files; {', '.join(other)} not byte for byte as published (content or order)"


def _require_count(entry: Entry, part: str, found: int, place: str) -> None:
    count = entry.parts[part].count
    if found != count:
        raise UserError(
            f"{place} holds {found:,} images for the {part} part of {entry.name}, which has "
            f"{count:,}; {entry.where_from}."
        )


def _require_codes(entry: Entry, name: str, column: Column, place: str) -> None:
    if column.classes is None:
        return
    codes = np.asarray(column.values)
    wrong = codes[(codes < 0) | (codes >= len(column.classes))]
    if len(wrong):
        raise UserError(
            f"{place} has the code {wrong[0]} for {name!r}, which has {len(column.classes)} "
            f"classes in {entry.name}; {entry.where_from}."
        )


def _require_classes(entry: Entry, part: str, known: PartFacts, column: Column, place: str) -> None:
    found = np.bincount(np.asarray(column.values), minlength=len(known.per_class))
    wrong = np.flatnonzero(found != np.asarray(known.per_class))
    if len(wrong):
        name = column.classes[wrong[0]] if column.classes else str(wrong[0])
        raise UserError(
            f"{place} holds {found[wrong[0]]:,} images of class {name!r} in the {part} part, where "
            f"{entry.name} has {known.per_class[wrong[0]]:,}; {entry.where_from}."
        )


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
