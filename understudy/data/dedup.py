"""Exact duplicates out, before anything is split: they break every memorisation figure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from understudy.data.content import contents
from understudy.data.records import Records


@dataclass(frozen=True)
class Deduplicated:
    """Records without exact duplicates.

    dropped: how many went. It is a count over private records: for the owner's eyes, not
        for a release, and never the declared count n0.
    """

    records: Records
    dropped: int


def deduplicate(records: Records) -> Deduplicated:
    """Keep the first of all records with equal pixels *and* equal attributes.

    The same pixels under another annotation are another record. Where records belong to
    units, a duplicate is dropped only within its unit: whether one person's record stays
    must not depend on what another person contributed. Rows of a table are all kept: people
    whom a coarse table describes alike are different people.

    Formal guarantee, with units: adding or removing one unit changes nothing outside it.
    Without units every record is its own unit, and adding a record that is already there
    changes nothing at all; adding any other record adds just that record.
    """
    if records.features.ndim == 2:
        return Deduplicated(records, 0)
    seen: set[tuple[str, bytes]] = set()
    keep: list[int] = []
    units = None if records.units is None else records.units.tolist()
    for i, content in enumerate(contents(records)):
        mark = ("" if units is None else str(units[i]), hashlib.sha256(content).digest())
        if mark not in seen:
            seen.add(mark)
            keep.append(i)
    dropped = len(records) - len(keep)
    return Deduplicated(records.select(keep) if dropped else records, dropped)


def shared_between(parts: Mapping[str, Records]) -> dict[tuple[str, str], int]:
    """How many records of a later part have exactly the pixels of one in an earlier part.

    Only pairs that share something are named, as (earlier, later). Attributes do not count:
    an image that was learnt from is no fair test under another label either.
    """
    marks = {part: _marks(records) for part, records in parts.items()}
    known = {part: set(own) for part, own in marks.items()}
    names = list(parts)
    found = {
        (earlier, later): sum(mark in known[earlier] for mark in marks[later])
        for i, later in enumerate(names)
        for earlier in names[:i]
    }
    return {pair: count for pair, count in found.items() if count}


def without_shared(parts: Mapping[str, Records]) -> dict[str, Records]:
    """The parts, each without the images that an earlier part holds already.

    For membership and memorisation figures, which need parts that share nothing. It looks
    at all parts together: for public data, or for the owner's side of an evaluation.
    """
    seen: set[bytes] = set()
    distinct: dict[str, Records] = {}
    for part, records in parts.items():
        marks = _marks(records)
        keep = np.array([mark not in seen for mark in marks], np.bool_)
        distinct[part] = records if keep.all() else records.select(keep)
        seen.update(marks)
    return distinct


def _marks(records: Records) -> list[bytes]:
    return [hashlib.sha256(row.tobytes()).digest() for row in records.features]
