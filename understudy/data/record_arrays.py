"""Records as named arrays, the form in which they are kept on disk; nothing in it is pickled."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from understudy.data.records import Array, Images, Records
from understudy.data.schema import Schema
from understudy.durable import new_file, sync_folder
from understudy.errors import UserError, reading

_FEATURES, _UNITS = "features", "units"
_ARRAYS, _SCHEMA = "records.npz", "schema.json"


def save_records(folder: Path, records: Records) -> None:
    """Keep records in a folder: every array as it is, soft labels among them, and the schema.

    Units are not kept: records that a method made belong to nobody, and names of units are
    people's. The schema is written last, so a folder that holds one holds all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (_ARRAYS, _SCHEMA):
        if (folder / name).exists():
            raise UserError(f"{folder} already holds {name}; save records into a new folder.")
    with new_file(folder / _ARRAYS) as file:
        np.savez(file, **arrays_of(replace(records, units=None)))  # type: ignore[arg-type]
    with new_file(folder / _SCHEMA) as file:
        file.write(json.dumps(records.schema.to_json(), indent=1).encode())
    sync_folder(folder)


def load_records(folder: Path) -> Records:
    """What `save_records` kept."""
    with reading(folder / _SCHEMA):
        schema = Schema.from_json(json.loads((folder / _SCHEMA).read_bytes()))
    with reading(folder / _ARRAYS):
        records = read_arrays(folder / _ARRAYS, schema)
    kind = Images if records.is_images else Records
    return kind(records.features, records.attributes, records.schema)


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
