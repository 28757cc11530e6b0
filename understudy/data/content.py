"""The bytes that say what a record is: its features and its annotations, nothing else.

Two records have the same content exactly if their features and all their annotations are
equal. Classes are written by name, not by code, so a record's content does not change when
another record brings in a new class and the codes move up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from understudy.data.records import Array, Records
from understudy.data.schema import Attribute, Schema


def contents(records: Records) -> Iterator[bytes]:
    """The content of each record, in order, in an encoding that cannot be ambiguous."""
    features = np.ascontiguousarray(records.features)
    head = f"{features.dtype.str} {features.shape[1:]};".encode()
    columns = [
        _written(attribute, records.attributes[attribute.name])
        for attribute in sorted(records.schema.attributes, key=lambda a: a.name)
    ]
    for i, row in enumerate(features):
        yield head + row.tobytes() + b"".join([column[i] for column in columns])


def content_digest(records: Records) -> str:
    """SHA-256 over the content of all records, in order. Of private records it stays with the
    owner."""
    total = hashlib.sha256()
    for content in contents(records):
        total.update(_framed(content))
    return total.hexdigest()


def without_attributes(records: Records) -> Records:
    """The same features in the same order, with nothing said about them."""
    return Records(records.features, {}, Schema(()), records.units)


def _written(attribute: Attribute, column: Array) -> list[bytes]:
    """Each record's value of one attribute, with lengths in front."""
    name = _framed(attribute.name.encode())
    if column.ndim == 1:
        classes = [name + _framed(c.encode()) for c in attribute.classes]
        return [classes[code] for code in column.tolist()]
    names = name + _framed(b"".join(_framed(c.encode()) for c in attribute.classes))
    return [names + row.tobytes() for row in np.ascontiguousarray(column, "<f8")]


def _framed(value: bytes) -> bytes:
    return len(value).to_bytes(8, "big") + value
