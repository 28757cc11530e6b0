"""A fixed set of synthetic records, as `fit` made them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from understudy.data.record_arrays import load_records, save_records
from understudy.data.records import Records


@dataclass(frozen=True)
class RecordSet:
    """The `FixedSet` of most methods: records that are kept as they are, soft labels included."""

    made: Records

    def records(self) -> Records:
        return self.made

    def save(self, folder: Path) -> None:
        save_records(folder, self.made)

    @classmethod
    def load(cls, folder: Path) -> RecordSet:
        return cls(load_records(folder))
