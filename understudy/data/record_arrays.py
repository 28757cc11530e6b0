"""Records as named arrays, the form in which they are kept on disk; nothing in it is pickled."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from understudy.data.records import Array, Records
from understudy.data.schema import Schema

_FEATURES, _UNITS = "features", "units"


def arrays_of(records: Records) -> dict[str, Array]:
    arrays = {_FEATURES: np.ascontiguousarray(records.features)}
    arrays |= {_column(name): np.asarray(v) for name, v in records.attributes.items()}
    if records.units is not None:
        arrays[_UNITS] = np.asarray([str(unit) for unit in records.units.tolist()])
    return arrays


def read_arrays(path: Path, schema: Schema) -> Records:
    """The records of a file that `numpy.savez` made of `arrays_of`."""
    with np.load(path, allow_pickle=False) as data:
        columns = {name: data[_column(name)] for name in schema.names}
        units = data[_UNITS] if _UNITS in data.files else None
        return Records(data[_FEATURES], columns, schema, units)


def _column(attribute: str) -> str:
    return f"attribute-{attribute}"
