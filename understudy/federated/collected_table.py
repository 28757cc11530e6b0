"""The table of a collection: what users sent, one record a row, labels empty where not sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.records import Array
from understudy.data.schema import Attribute
from understudy.durable import new_file
from understudy.errors import UserError
from understudy.federated.contribution import IMAGES
from understudy.federated.merging import NOT_SENT, Merged
from understudy.release.parquet_layout import hidden_bytes
from understudy.release.png import encode_png, png_problem

TABLE = "data/train-00000-of-00001.parquet"
_COLUMNS = {IMAGES: "image"}
_ROWS = 1000
_IMAGE_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_LATENT_TYPE = pa.list_(pa.field("element", pa.float32()))


def sent_attributes(merged: Merged) -> list[Attribute]:
    """The labels that somebody sent, in the agreed order."""
    return [a for a in merged.agreement.labels if a.name in merged.labels]


def write_table(path: Path, merged: Merged) -> None:
    attributes = sent_attributes(merged)
    name = _feature_column(merged.agreement.content)
    if name in (a.name for a in attributes):
        raise UserError(f"a label is named {name!r}, like what users sent; rename it.")
    schema = _arrow_schema(merged.agreement.content, attributes)
    with new_file(path) as file, pq.ParquetWriter(file, schema) as writer:
        for batch in _batches(merged, schema):
            writer.write_batch(batch)


def table_problems(path: Path, records: Mapping[str, Any]) -> list[str]:
    """How the table differs from what a collection's claim says of its records.

    Every value is looked at: nothing hides in an image's metadata, a file name, a code that no
    class has or between the columns. What a column's pages or the list of columns hold and
    readers skip is not seen.
    """
    content, shape = records["content"], tuple(records["shape"])
    labels = [Attribute(a["name"], tuple(a["classes"])) for a in records["labels"]]
    with pq.ParquetFile(path) as table:
        if not table.schema_arrow.equals(_arrow_schema(content, labels), check_metadata=True):
            return ["the table has other columns than the claim lists."]
        if hidden_bytes(path, table):
            return ["the table holds bytes that belong to no column."]
        rows = table.metadata.num_rows
        sent = dict.fromkeys((a.name for a in labels), 0)
        for batch in table.iter_batches(batch_size=_ROWS):
            problem = _feature_problem(batch.column(0), content, shape)
            if problem:
                return [f"the table holds {problem}."]
            for label in labels:
                sent[label.name] += _count_sent(batch.column(label.name), label)
    problems = []
    if rows != records["count"]:
        problems.append(f"the table has {rows} rows; the claim counts {records['count']}.")
    problems += [
        f"label {a['name']!r} is there for {sent[a['name']]} records, not {a['sent']}."
        for a in records["labels"]
        if sent[a["name"]] != a["sent"]
    ]
    return problems


def _feature_column(content: str) -> str:
    return _COLUMNS.get(content, "latent")


def _arrow_schema(content: str, attributes: Sequence[Attribute]) -> pa.Schema:
    """Columns and their types, with what `datasets` needs to see images and class names."""
    images, name = content == IMAGES, _feature_column(content)
    value = {"dtype": "float32", "_type": "Value"}
    shown: dict[str, Any] = {
        name: {"_type": "Image"} if images else {"feature": value, "_type": "Sequence"}
    }
    shown |= {a.name: {"names": list(a.classes), "_type": "ClassLabel"} for a in attributes}
    return pa.schema(
        [
            (name, _IMAGE_TYPE if images else _LATENT_TYPE),
            *((a.name, pa.int64()) for a in attributes),
        ],
        metadata={b"huggingface": json.dumps({"info": {"features": shown}}).encode()},
    )


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
        problem = png_problem(image["bytes"] or b"", shape)
        if problem or image["path"] is not None:
            return f"an image that {problem or 'carries a file name'}"
    return None


def _count_sent(column: pa.Array, label: Attribute) -> int:
    codes = column.drop_null().to_numpy(zero_copy_only=False)
    if len(codes) and not (codes.min() >= 0 and codes.max() < len(label.classes)):
        raise UserError(f"label {label.name!r} has codes outside its classes.")
    return len(codes)
