"""Which records belong to which unit of privacy (a person, say)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy.data.records import Records

Rows = npt.NDArray[np.int64]


class UnitIndex:
    """Records grouped by unit; without a unit column every record is its own unit."""

    def __init__(self, records: Records) -> None:
        if records.units is None:
            self._order = np.arange(len(records))
            self._starts = np.arange(len(records) + 1)
        else:
            _, numbers = np.unique(np.asarray(records.units), return_inverse=True)
            self._order = np.argsort(numbers, kind="stable")
            sizes = np.bincount(numbers) if len(records) else np.zeros(0, dtype=np.int64)
            self._starts = np.concatenate([[0], np.cumsum(sizes)])

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def single(self) -> bool:
        """Whether every unit has exactly one record."""
        return len(self) == len(self._order)

    def rows(self, units: Rows) -> tuple[Rows, Rows]:
        """The records of these units, unit by unit, and the unit of each record."""
        if self.single:
            return self._order[units], units
        sizes = self._starts[units + 1] - self._starts[units]
        owners = np.repeat(units, sizes)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self._order[self._starts[owners] + within], owners
