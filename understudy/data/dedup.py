"""Exact duplicates out, before anything is split: they break every memorisation figure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

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
    must not depend on what another person contributed.

    Formal guarantee, with units: adding or removing one unit changes nothing outside it.
    Without units every record is its own unit, and adding a record that is already there
    changes nothing at all; adding any other record adds just that record.
    """
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
