"""Datasets known by name: what they are, where they may lie, how to get them.

A dataset that is not built in is looked for in `$UNDERSTUDY_DATA/<name>/` (the standard raw
files), then in the Hub cache, then downloaded. Facts about each are in `catalog.yaml`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from understudy.data.entry import Entry, PartFacts, read_entries
from understudy.data.images import Reading, fit_pixels
from understudy.data.published import digests, kinship, verdict
from understudy.data.records import Images, Records
from understudy.data.sources.assemble import Roles, assemble
from understudy.data.sources.hub import PREFIX, load_hub
from understudy.data.sources.raw import Column, RawPart
from understudy.data.sources.readers import Request, reader_of
from understudy.errors import UserError, did_you_mean

__all__ = [
    "DATA_VARIABLE",
    "Entry",
    "Found",
    "PartFacts",
    "catalog",
    "catalog_entry",
    "load_catalog",
]

DATA_VARIABLE = "UNDERSTUDY_DATA"


@dataclass(frozen=True)
class Found:
    """A catalog dataset as found: its parts, and where it came from, in words."""

    entry: Entry
    parts: Mapping[str, Records]
    provenance: str


@functools.cache
def catalog() -> Mapping[str, Entry]:
    """Every dataset known by name."""
    return read_entries(
        files("understudy.data").joinpath("catalog.yaml").read_text(encoding="utf-8")
    )


def catalog_entry(name: str) -> Entry:
    if name not in catalog():
        raise UserError(f"no dataset {name!r} in the catalog; {did_you_mean(name, catalog())}")
    return catalog()[name]


def load_catalog(name: str, reading: Reading, roles: Roles) -> Found:
    """A dataset of the catalog, checked against what is published about it."""
    entry = catalog_entry(name)
    _check_unit(entry, roles.unit)
    roles = replace(roles, label=roles.label or entry.label)
    if entry.kind == "built-in":
        return Found(entry, _built_in(entry, reading, roles), entry.provenance)
    if entry.is_table:
        _refuse_pixels(entry, reading)
        raw, provenance = _find(entry, reading, roles.unit)
        return Found(entry, assemble(raw, roles, name, reading.progress), provenance)
    wanted = _as_loaded(entry, reading)
    raw, provenance = _find(entry, wanted, roles.unit)
    fitted = {part: replace(p, pixels=fit_pixels(p.pixels, wanted)) for part, p in raw.items()}
    return Found(entry, assemble(fitted, roles, name, reading.progress), provenance)


def _check_unit(entry: Entry, unit: str | None) -> None:
    if unit is None or unit == entry.unit:
        return
    if entry.unit is None:
        raise UserError(f"{entry.name} does not say whom an image belongs to; leave out --unit.")
    raise UserError(
        f"{entry.name} says in {entry.unit!r} whom an image belongs to; pass --unit {entry.unit}, "
        f"not {unit!r}."
    )


def _refuse_pixels(entry: Entry, reading: Reading) -> None:
    if reading.size is not None or reading.channels is not None:
        raise UserError(f"{entry.name} is a table, not images; leave out --size and --channels.")


def _as_loaded(entry: Entry, reading: Reading) -> Reading:
    """What the caller asked for; a set that is stored larger is reduced to its usual size."""
    usual = None if entry.stored is None else entry.shape[1]
    return replace(reading, size=reading.size or usual, channels=reading.channels or entry.shape[0])


def _built_in(entry: Entry, reading: Reading, roles: Roles) -> dict[str, Records]:
    if entry.name == "digits":
        from understudy.data.digits import digit_parts

        parts = digit_parts()
    else:
        from understudy.data.portraits import portrait_parts

        parts = portrait_parts(reading.size or entry.shape[1], reading.progress)
    return {part: _fitted(records, reading, roles) for part, records in parts.items()}


def _fitted(records: Records, reading: Reading, roles: Roles) -> Records:
    if (
        roles.classes is not None
        and roles.classes != records.schema.with_roles(roles.label).classes
    ):
        raise UserError("classes of a built-in dataset are fixed; leave them out.")
    schema = records.schema.with_roles(label=roles.label)
    return Images(fit_pixels(records.features, reading), records.attributes, schema)


def _find(entry: Entry, reading: Reading, unit: str | None) -> tuple[Mapping[str, RawPart], str]:
    root = os.environ.get(DATA_VARIABLE)
    folder = Path(root) / entry.name if root else None
    if folder is not None and folder.is_dir():
        parts = reader_of(entry.kind)(Request(entry, folder, reading, unit))
        sizes = {part: len(raw.pixels) for part, raw in parts.items()}
        return parts, f"{entry.provenance}; {verdict(entry, folder)}{kinship(entry, sizes)}"
    if entry.hub is None:
        raise _not_here(entry, root)
    try:
        # Pixels as published: resizing comes after they were checked.
        raw = load_hub(f"{PREFIX}{entry.hub}", Reading(progress=reading.progress))
    except UserError as error:
        raise _not_here(entry, root) from error
    return _from_hub(entry, raw)


def _from_hub(entry: Entry, raw: Mapping[str, RawPart]) -> tuple[dict[str, RawPart], str]:
    parts: dict[str, RawPart] = {}
    same = True
    classes = {entry.label or "": entry.classes, **entry.others}
    for part, known in entry.parts.items():
        found = raw.get(part)
        shape = (known.count, *entry.shape)
        if found is None or found.pixels.shape != shape or not classes.keys() <= set(found.columns):
            raise UserError(
                f"hf:{entry.hub} no longer holds the {part} part of {entry.name}; "
                f"{entry.where_from} and put it into ${DATA_VARIABLE}/{entry.name}/."
            )
        columns = {name: Column(found.columns[name].values, c) for name, c in classes.items()}
        parts[part] = replace(found, columns=columns)
        same = same and digests(parts[part], entry.label or "") == (known.pixels, known.labels)
    stated = all(known.pixels for known in entry.parts.values())
    words = "identical to" if same else "content or order differs from"
    words = words if stated else "not compared byte for byte with"
    return parts, f"{entry.provenance}; hf:{entry.hub}, {words} the published files"


def _not_here(entry: Entry, root: str | None) -> UserError:
    if root:
        place = str(Path(root) / entry.name)
    else:
        place = f"${DATA_VARIABLE}/{entry.name}/ ({DATA_VARIABLE} is not set)"
    if entry.hub is None:
        return UserError(
            f"{entry.name} is not on this machine; put {entry.files} (from {entry.homepage}) "
            f"into {place}."
        )
    return UserError(
        f"{entry.name} is neither on this machine nor to be had from the Hub (hf:{entry.hub}, "
        f"needs understudy[hub] and a network); put {entry.files} into {place}."
    )
