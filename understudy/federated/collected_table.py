"""The table of a collection: what users sent, one record a row, labels empty where not sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.records import Array
from understudy.data.schema import Attribute
from understudy.durable import new_file
from understudy.errors import UserError
from understudy.federated.collection_claim import SentRecords
from understudy.federated.contribution import IMAGES
from understudy.federated.merging import NOT_SENT, Merged
from understudy.release.columns import (
    class_column,
    image_column,
    image_problem,
    schema_of,
    vector_column,
)
from understudy.release.doubt import UNREADABLE
from understudy.release.parquet_layout import hidden_bytes
from understudy.release.png import encode_png

_ROWS = 1000


def write_table(path: Path, merged: Merged, records: SentRecords) -> None:
    schema = _arrow_schema(records)
    name, *labels = schema.names
    if name in labels:
        raise UserError(f"a label is named {name!r}, like what users sent; rename it.")
    with new_file(path) as file, pq.ParquetWriter(file, schema) as writer:
        for batch in _batches(merged, schema):
            writer.write_batch(batch)


def table_problems(path: Path, records: SentRecords) -> list[str]:
    """How the table differs from what a collection's claim says of its records.

    Every value is looked at: nothing hides in an image's metadata, a file name, a code that no
    class has or between the columns. What a column's pages or the list of columns hold and
    readers skip is not seen.
    """
    try:
        with pq.ParquetFile(path) as table:
            if not table.schema_arrow.equals(_arrow_schema(records), check_metadata=True):
                return ["the table has other columns than the claim lists."]
            if hidden_bytes(path, table):
                return ["the table holds bytes that belong to no column."]
            return _value_problems(table, records)
    except (*UNREADABLE, pa.ArrowException) as error:
        return [f"the table cannot be read: {error}"]


def _value_problems(table: pq.ParquetFile, records: SentRecords) -> list[str]:
    sent = [0] * len(records.labels)
    for batch in table.iter_batches(batch_size=_ROWS):
        problem = _feature_problem(batch.column(0), records.content, records.shape)
        if problem:
            return [f"the table holds {problem}."]
        for place, label in enumerate(records.labels):
            sent[place] += _count_sent(batch.column(1 + place), label.attribute)
    rows = table.metadata.num_rows
    problems = []
    if rows != records.count:
        problems.append(f"the table has {rows} rows; the claim counts {records.count}.")
    problems += [
        f"label {label.attribute.name!r} is there for {found} records, not {label.sent}."
        for label, found in zip(records.labels, sent, strict=True)
        if found != label.sent
    ]
    return problems


def _arrow_schema(records: SentRecords) -> pa.Schema:
    features = image_column() if records.content == IMAGES else vector_column("latent")
    return schema_of([features, *(class_column(label.attribute) for label in records.labels)])


def _batches(merged: Merged, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    images, kind = merged.agreement.content == IMAGES, schema.types[0]
    for start in range(0, len(merged), _ROWS):
        some = slice(start, start + _ROWS)
        rows = merged.features[some]
        values = [{"bytes": encode_png(r), "path": None} for r in rows] if images else list(rows)
        columns = [_nullable(merged.labels[name][some]) for name in schema.names[1:]]
        yield pa.RecordBatch.from_arrays([pa.array(values, kind), *columns], schema=schema)


def _nullable(codes: Array) -> pa.Array:
    return pa.array(codes, pa.int64(), mask=np.asarray(codes == NOT_SENT))


def _feature_problem(column: pa.Array, content: str, shape: tuple[int, ...]) -> str | None:
    if column.null_count:
        return "a record without features"
    if content != IMAGES:
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        values = column.flatten()
        sound = (lengths == shape[0]).all() and not values.null_count
        if not sound or not np.isfinite(values.to_numpy(zero_copy_only=False)).all():
            return f"a latent that is not {shape[0]} finite numbers"
        return None
    for image in column.to_pylist():
        problem = image_problem(image, shape)
        if problem:
            return f"an image that {problem}"
    return None


def _count_sent(column: pa.Array, label: Attribute) -> int:
    codes = column.drop_null().to_numpy(zero_copy_only=False)
    if len(codes) and not (codes.min() >= 0 and codes.max() < len(label.classes)):
        raise UserError(f"label {label.name!r} has codes outside its classes.")
    return len(codes)
