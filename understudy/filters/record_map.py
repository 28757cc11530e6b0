"""A filter behind the door, for records that an owner holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from understudy.data.records import Records
from understudy.filters.filter import Filter
from understudy.filters.filter_file import load_filter, save_filter
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.noise.source import NoiseSource

REASON = "latents leave through a filter, which has no epsilon"
_FILE = "one.filter"


@dataclass(frozen=True)
class FilterMap:
    """The `RecordMap` of a filter.

    Guarantee: none. Filtered records leave as a reveal: the plan must hold one, and the claim
    is empirical.
    """

    filter: Filter

    def apply(self, private: PrivateRecords) -> Records:
        noise = NoiseSource()
        return private.transform(lambda records: self.filter.apply(records, noise), REASON)

    def save(self, folder: Path) -> None:
        save_filter(folder / _FILE, self.filter)

    @classmethod
    def load(cls, folder: Path) -> FilterMap:
        return cls(load_filter(folder / _FILE))
