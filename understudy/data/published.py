"""Is this the published dataset? Raw files and what was read from them, held against the facts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from understudy.data.entry import Entry, PartFacts
from understudy.data.records import Array
from understudy.data.sources.raw import Column, RawPart
from understudy.errors import UserError

MOMENTS_TOLERANCE = 1e-6
"""One pixel in a hundred thousand that is a tenth brighter moves a mean by as much."""

_COUNTED_AT_ONCE = 10_000


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
    here = dict(_raw_files(entry, folder))
    other = [name for name, path in here.items() if _md5(path) != entry.md5[name]]
    if not here:
        return "raw files"
    if not other:
        return "raw files, identical to the published ones"
    return f"raw files; {', '.join(other)} not byte for byte as published (content or order)"


def require_moments(entry: Entry, parts: Mapping[str, Array], place: str) -> None:
    """Refuse pixels whose mean or deviation by channel is not the well-known one."""
    for part, known in entry.parts.items():
        if not known.mean:
            continue
        mean, deviation = moments(parts[part])
        wanted = (known.mean, known.deviation)
        if not np.allclose((mean, deviation), wanted, rtol=0, atol=MOMENTS_TOLERANCE):
            raise UserError(
                f"{place} has other pixels in the {part} part than {entry.name}: their mean by "
                f"channel is {_listed(mean)}, not {_listed(known.mean)}, or their deviation is "
                f"{_listed(deviation)}, not {_listed(known.deviation)}; {entry.where_from}."
            )


def moments(pixels: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of uint8 pixels by channel, in [0, 1]; exact, because levels are counted.

    >>> moments(np.array([[[[0, 255]]]], np.uint8))
    ((0.5,), (0.5,))
    """
    counts = np.zeros((pixels.shape[1], 256), np.int64)
    for start in range(0, len(pixels), _COUNTED_AT_ONCE):
        some = pixels[start : start + _COUNTED_AT_ONCE]
        for channel, found in enumerate(counts):
            found += np.bincount(some[:, channel].ravel(), minlength=256)
    levels, of = np.arange(256) / 255, counts.sum(axis=1)
    mean = counts @ levels / of
    deviation = np.sqrt(counts @ levels**2 / of - mean**2)
    return tuple(mean.tolist()), tuple(deviation.tolist())


def kinship(entry: Entry, parts: Mapping[str, int]) -> str:
    """In words, for the provenance: how far parts of these sizes are known to be the whole set."""
    fewer = [
        f"{parts[part]:,} of {known.count:,} {part} images"
        for part, known in entry.parts.items()
        if parts[part] != known.count
    ]
    told = f"; an excerpt: {', '.join(fewer)}" if fewer else ""
    if any(known.mean for known in entry.parts.values()):
        told += "; pixels have the published mean and deviation"
    return told


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.6f}" for value in values)


def _raw_files(entry: Entry, folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of a known md5 that are there, in the dataset's folder or one of its roots."""
    for name in entry.md5:
        places = [folder / root / name for root in ("", *entry.roots)]
        found = next((place for place in places if place.is_file()), None)
        if found is not None:
            yield name, found


def _require_count(entry: Entry, part: str, found: int, place: str) -> None:
    known = entry.parts[part]
    if found not in (known.count, *known.excerpts):
        few = "".join(f" (or {count:,} in an excerpt)" for count in known.excerpts)
        raise UserError(
            f"{place} holds {found:,} images for the {part} part of {entry.name}, which has "
            f"{known.count:,}{few}; {entry.where_from}."
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
