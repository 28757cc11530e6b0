"""Datasets known by name: what they are, where they may lie, how to get them.

A dataset that is not built in is looked for in `$UNDERSTUDY_DATA/<name>/` (the standard raw
files), then in the Hub cache, then downloaded. Facts about each are in `catalog.yaml`.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

import yaml

from understudy.data.images import Reading, fit_pixels
from understudy.data.records import Array, Images, Records
from understudy.data.sources.assemble import Roles, assemble
from understudy.data.sources.hub import PREFIX, load_hub
from understudy.data.sources.idx import STANDARD_PARTS, find_idx, load_idx_pair
from understudy.data.sources.raw import Column, RawPart
from understudy.errors import UserError, did_you_mean

DATA_VARIABLE = "UNDERSTUDY_DATA"


@dataclass(frozen=True)
class PartFacts:
    """What is published about one part: its size, and sha256 of its pixels and labels."""

    count: int
    pixels: str | None = None
    labels: str | None = None


@dataclass(frozen=True)
class Entry:
    """One dataset of the catalog. Everything here is public knowledge about it.

    md5: of the standard compressed files, as their authors published them.
    hub: the repository of the Hugging Face Hub that holds the same data.
    split: in words, how the parts came about, for a claim to repeat.
    """

    name: str
    summary: str
    kind: str
    provenance: str
    homepage: str | None
    licence: str
    public: bool
    label: str
    split: str
    shape: tuple[int, int, int]
    parts: Mapping[str, PartFacts]
    classes: tuple[str, ...] = ()
    hub: str | None = None
    md5: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """A catalog dataset as found: its parts, and where it came from, in words."""

    entry: Entry
    parts: Mapping[str, Records]
    provenance: str


@functools.cache
def catalog() -> Mapping[str, Entry]:
    """Every dataset known by name."""
    text = files("understudy.data").joinpath("catalog.yaml").read_text(encoding="utf-8")
    entries: dict[str, Entry] = {}
    for name, facts in yaml.safe_load(text).items():
        facts["shape"] = tuple(facts["shape"])
        facts["classes"] = tuple(facts.get("classes", ()))
        facts["parts"] = {part: PartFacts(**known) for part, known in facts["parts"].items()}
        entries[name] = Entry(name=name, **facts)
    return entries


def catalog_entry(name: str) -> Entry:
    if name not in catalog():
        raise UserError(f"no dataset {name!r} in the catalog; {did_you_mean(name, catalog())}")
    return catalog()[name]


def load_catalog(name: str, reading: Reading, roles: Roles) -> Found:
    """A dataset of the catalog, checked against what is published about it."""
    entry = catalog_entry(name)
    if roles.unit is not None:
        raise UserError(f"{name} does not say whom an image belongs to; leave out --unit.")
    roles = replace(roles, label=roles.label or entry.label)
    if entry.kind == "built-in":
        return Found(entry, _built_in(entry, reading, roles), entry.provenance)
    raw, provenance = _find(entry, reading)
    fitted = {part: replace(p, pixels=fit_pixels(p.pixels, reading)) for part, p in raw.items()}
    return Found(entry, assemble(fitted, roles, name), provenance)


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


def _find(entry: Entry, reading: Reading) -> tuple[dict[str, RawPart], str]:
    """Pixels as published: resizing comes after they were checked."""
    as_stored = Reading(progress=reading.progress)
    root = os.environ.get(DATA_VARIABLE)
    folder = Path(root) / entry.name if root else None
    if folder is not None and folder.is_dir():
        return _raw_files(entry, folder, as_stored), f"{entry.provenance}; raw files"
    try:
        raw = load_hub(f"{PREFIX}{entry.hub}", as_stored)
    except UserError as error:
        raise _not_here(entry, root) from error
    return _from_hub(entry, raw)


def _raw_files(entry: Entry, folder: Path, reading: Reading) -> dict[str, RawPart]:
    wanted = [name for part in entry.parts for name in STANDARD_PARTS[part]]
    missing = [f"{name}.gz" for name in wanted if find_idx(folder, name) is None]
    if missing:
        raise UserError(f"{folder} lacks {', '.join(missing)}; {_where_from(entry)}.")
    parts: dict[str, RawPart] = {}
    for part, known in entry.parts.items():
        images, labels = (find_idx(folder, name) for name in STANDARD_PARTS[part])
        assert images is not None
        assert labels is not None
        parts[part] = load_idx_pair(images, labels, reading, entry.classes)
        for path, found, published in zip(
            (images, labels), _digests(parts[part]), (known.pixels, known.labels), strict=True
        ):
            if found != published:
                raise UserError(
                    f"{path} is not the published file of {entry.name}; {_where_from(entry)}, or "
                    "load it under another name by its folder."
                )
    return parts


def _from_hub(entry: Entry, raw: Mapping[str, RawPart]) -> tuple[dict[str, RawPart], str]:
    parts: dict[str, RawPart] = {}
    same = True
    for part, known in entry.parts.items():
        found = raw.get(part)
        shape = (known.count, *entry.shape)
        if found is None or found.pixels.shape != shape or entry.label not in found.columns:
            raise UserError(
                f"hf:{entry.hub} no longer holds the {part} part of {entry.name}; "
                f"{_where_from(entry)} and put it into ${DATA_VARIABLE}/{entry.name}/."
            )
        column = Column(found.columns[entry.label].values, entry.classes)
        parts[part] = replace(found, columns={entry.label: column})
        same = same and _digests(parts[part]) == (known.pixels, known.labels)
    verdict = "identical to" if same else "content or order differs from"
    return parts, f"{entry.provenance}; hf:{entry.hub}, {verdict} the published files"


def _digests(part: RawPart) -> tuple[str, str]:
    labels = bytes(int(value or 0) for value in part.columns["label"].values)
    return _sha256(part.pixels), hashlib.sha256(labels).hexdigest()


def _sha256(pixels: Array) -> str:
    return hashlib.sha256(pixels.tobytes()).hexdigest()


def _not_here(entry: Entry, root: str | None) -> UserError:
    names = ", ".join(f"{name}.gz" for part in entry.parts for name in STANDARD_PARTS[part])
    if root:
        place = str(Path(root) / entry.name)
    else:
        place = f"${DATA_VARIABLE}/{entry.name}/ ({DATA_VARIABLE} is not set)"
    return UserError(
        f"{entry.name} is neither on this machine nor to be had from the Hub (hf:{entry.hub}, "
        f"needs understudy[hub] and a network); put {names} into {place}."
    )


def _where_from(entry: Entry) -> str:
    return f"get the standard files from {entry.homepage}"
