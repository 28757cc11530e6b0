"""Released records as Parquet that `datasets.load_dataset` opens with images and class names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.records import Array, Images, Records
from understudy.data.schema import Attribute, Schema
from understudy.durable import new_file
from understudy.errors import UserError
from understudy.release.claim import RecordsSummary
from understudy.release.columns import (
    IMAGE,
    IMAGE_TYPE,
    VECTOR_TYPE,
    Column,
    class_column,
    class_name_of,
    image_column,
    image_problem,
    png_of,
    schema_of,
    soft_columns,
    vector_column,
)
from understudy.release.parquet_layout import hidden_bytes
from understudy.release.png import decode_png, encode_png

DATA_FOLDER = "data"
SHARD_BYTES = 64 << 20
ROWS_PER_GROUP = 1000


def shard_name(index: int, total: int) -> str:
    return f"{DATA_FOLDER}/train-{index:05d}-of-{total:05d}.parquet"


def check_records(records: Records) -> None:
    """Refuse what a release cannot hold."""
    if not len(records):
        raise UserError("there are no records to release.")
    Images(records.features, records.attributes, records.schema)
    if IMAGE in records.schema.names:
        raise UserError(f"an attribute is named {IMAGE!r}, like the pixels; rename it.")
    taken = [n for n in records.soft if class_name_of(n) in (IMAGE, *records.schema.names)]
    if taken:
        raise UserError(
            f"an attribute is named {class_name_of(taken[0])!r}, like the most probable class of "
            f"the soft attribute {taken[0]!r}; rename it."
        )


def write_shards(records: Records, folder: Path, shard_bytes: int = SHARD_BYTES) -> list[str]:
    """Write `data/train-*.parquet` below a folder; their names, in order.

    Units are not written: they name people.
    """
    check_records(records)
    (folder / DATA_FOLDER).mkdir()
    schema = arrow_schema(records.schema, records.soft)
    drafts: list[Path] = []
    batches = _batches(records, schema)
    batch = next(batches, None)
    while batch is not None:
        drafts.append(folder / DATA_FOLDER / f"draft-{len(drafts)}")
        batch = _write_shard(drafts[-1], schema, batch, batches, shard_bytes)
    names = [shard_name(i, len(drafts)) for i in range(len(drafts))]
    for draft, name in zip(drafts, names, strict=True):
        draft.rename(folder / name)
    return names


def _write_shard(
    path: Path,
    schema: pa.Schema,
    first: pa.RecordBatch,
    rest: Iterator[pa.RecordBatch],
    shard_bytes: int,
) -> pa.RecordBatch | None:
    """Fill one shard; gives back the first batch of the next, or None at the end."""
    coded = [name for name in schema.names if name != IMAGE]
    with (
        new_file(path) as file,
        pq.ParquetWriter(file, schema, use_dictionary=coded, write_statistics=coded) as writer,
    ):
        batch: pa.RecordBatch | None = first
        written = 0
        while batch is not None and written < shard_bytes:
            writer.write_batch(batch)
            written += batch.nbytes
            batch = next(rest, None)
    return batch


def _batches(records: Records, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(records), ROWS_PER_GROUP):
        some = slice(start, start + ROWS_PER_GROUP)
        pngs = [encode_png(image) for image in np.asarray(records.features[some])]
        images = pa.array([{"bytes": png, "path": None} for png in pngs], IMAGE_TYPE)
        columns = [
            column
            for name in records.schema.names
            for column in _columns(np.asarray(records.attributes[name][some]))
        ]
        yield pa.RecordBatch.from_arrays([images, *columns], schema=schema)


def _columns(values: Array) -> list[pa.Array]:
    """Codes as they are; probabilities, and the most probable class of what is written."""
    if values.ndim == 1:
        return [pa.array(values.astype(np.int64))]
    written = values.astype(np.float32)
    return [pa.array(list(written), VECTOR_TYPE), pa.array(written.argmax(axis=1).astype(np.int64))]


def arrow_schema(schema: Schema, soft: Collection[str], named: bool = True) -> pa.Schema:
    """The columns of a table. named: soft attributes come with their most probable class, as in
    all releases but those of version 0.1."""
    columns: list[Column] = [image_column()]
    for attribute in schema.attributes:
        if attribute.name not in soft:
            columns.append(class_column(attribute))
        else:
            columns += soft_columns(attribute) if named else [vector_column(attribute.name)]
    return schema_of(columns)


def table_problems(folder: Path, shards: list[str], summary: RecordsSummary) -> list[str]:
    """How the released tables differ from what a claim says of them."""
    problems: list[str] = []
    rows = 0
    for position, name in enumerate(shards):
        if name != shard_name(position, len(shards)):
            problems.append(f"{name} is not named as one of {len(shards)} shards.")
        try:
            with pq.ParquetFile(folder / name) as shard:
                rows += shard.metadata.num_rows
                if hidden_bytes(folder / name, shard):
                    problems.append(f"{name} holds bytes that belong to no column.")
                problems += [f"{name}: {p}" for p in _shard_problems(shard, summary)]
        except UserError as error:
            problems.append(f"{name}: {error}")
        except (pa.ArrowException, OSError) as error:
            problems.append(f"{name} cannot be read as Parquet: {error}")
    if rows != summary.count:
        problems.append(f"the claim counts {summary.count} records, the tables hold {rows}.")
    return problems


def _shard_problems(shard: pq.ParquetFile, summary: RecordsSummary) -> list[str]:
    _check_columns(shard, summary)
    for batch in shard.iter_batches(batch_size=ROWS_PER_GROUP):
        for image in batch.column(IMAGE).to_pylist():
            problem = image_problem(image, summary.shape)
            if problem:
                return [f"an image {problem}."]
        _attributes(batch, summary.schema)
    return []


def _check_columns(shard: pq.ParquetFile, summary: RecordsSummary) -> None:
    found = shard.schema_arrow
    if summary.soft is None:
        names = [name for name in summary.schema.names if name in found.names]
        soft = [name for name in names if found.field(name).type == VECTOR_TYPE]
        expected = arrow_schema(summary.schema, soft, named=False)
    else:
        expected = arrow_schema(summary.schema, summary.soft)
    if not found.equals(expected, check_metadata=True):
        raise UserError("its columns are not those of the claim's schema.")


def read_records(folder: Path, shards: list[str], summary: RecordsSummary) -> Records:
    """The records of a release, as they were given to it."""
    rows = sum(pq.read_metadata(folder / name).num_rows for name in shards)
    if rows != summary.count or not rows:
        raise UserError(f"the claim counts {summary.count} records, the tables hold {rows}.")
    features = np.empty((rows, *summary.shape), np.uint8)
    columns: list[Mapping[str, Array]] = []
    position = 0
    for some in record_batches(folder, shards, summary):
        features[position : position + len(some)] = some.features
        position += len(some)
        columns.append(some.attributes)
    attributes = {n: np.concatenate([c[n] for c in columns]) for n in summary.schema.names}
    return Images(features, attributes, summary.schema)


def record_batches(folder: Path, shards: list[str], summary: RecordsSummary) -> Iterator[Images]:
    """The records of a release in portions, in order."""
    for name in shards:
        with pq.ParquetFile(folder / name) as shard:
            _check_columns(shard, summary)
            for batch in shard.iter_batches(batch_size=ROWS_PER_GROUP):
                pngs = [png_of(image) for image in batch.column(IMAGE).to_pylist()]
                pixels = np.stack([decode_png(png, summary.shape) for png in pngs])
                yield Images(pixels, _attributes(batch, summary.schema), summary.schema)


def _attributes(batch: pa.RecordBatch, schema: Schema) -> dict[str, Array]:
    """Codes and probabilities of one batch; `Records` checks their ranges."""
    found: dict[str, Array] = {}
    for attribute in schema.attributes:
        column = batch.column(attribute.name)
        if column.null_count:
            raise UserError(f"attribute {attribute.name!r} has empty values.")
        if pa.types.is_list(column.type):
            found[attribute.name] = _probabilities(column, attribute)
        else:
            found[attribute.name] = column.to_numpy(zero_copy_only=False)
    for name in Records(np.zeros(len(batch)), found, schema).soft:
        _check_most_probable(batch, name, found[name])
    return found


def _probabilities(column: pa.ListArray, attribute: Attribute) -> Array:
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    values: Array = column.flatten().to_numpy(zero_copy_only=False)
    if (lengths != len(attribute.classes)).any():
        raise UserError(
            f"attribute {attribute.name!r} must hold {len(attribute.classes)} probabilities a row."
        )
    return values.reshape(len(column), -1)


def _check_most_probable(batch: pa.RecordBatch, name: str, probabilities: Array) -> None:
    """A release of version 0.1 has no such column."""
    beside = class_name_of(name)
    if beside not in batch.schema.names:
        return
    said = batch.column(beside)
    if said.null_count or (said.to_numpy() != probabilities.argmax(axis=1)).any():
        raise UserError(f"column {beside!r} is not the most probable class of {name!r}.")
