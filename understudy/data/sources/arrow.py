"""Arrow tables with an image column, as Parquet files and the Hub both deliver them.

An image cell is a struct of `bytes` and `path` (the `Image` feature of Hugging Face
datasets) or plain binary. `ClassLabel` names are read from the schema's `huggingface`
metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from understudy.data.images import ImageStack, Reading, read_file
from understudy.data.sources.raw import Column, RawPart, Value, plain
from understudy.errors import UserError


@dataclass(frozen=True)
class ArrowPart:
    """Rows of one part, in batches, each with what an error calls it.

    beside: the folder that image paths are relative to, where a cell has no bytes.
    """

    schema: pa.Schema
    count: int
    batches: Iterable[tuple[str, pa.RecordBatch | pa.Table]]
    beside: Path | None = None


def read_arrow(part: ArrowPart, reading: Reading, source: str) -> RawPart:
    """Decode the image column; every other text or whole-number column annotates it."""
    if part.count == 0:
        raise UserError(f"{source} has no rows; it must hold at least one image.")
    features = _features(part.schema)
    image = _image_column(part.schema, features, source)
    usable, left_out = _sort_columns(part.schema, image)
    stack = ImageStack(part.count, reading)
    names: list[str] = []
    values: dict[str, list[Value]] = {name: [] for name in usable}
    with reading.progress.task(f"reading images from {Path(source).name}", part.count) as task:
        for place, batch in part.batches:
            cells = batch.column(image).to_pylist()
            for row, cell in enumerate(cells):
                name, data = _image_bytes(cell, f"{place} row {row}", part.beside)
                stack.add(data, name)
                names.append(name)
            for column in usable:
                values[column].extend(plain(v) for v in batch.column(column).to_pylist())
            task.advance(len(cells))
    columns = {name: _column(values[name], _class_names(features.get(name))) for name in usable}
    return RawPart(stack.finish(), names, columns, left_out)


def _features(schema: pa.Schema) -> Mapping[str, Any]:
    """The features that Hugging Face datasets wrote into the schema, if it did."""
    stored = (schema.metadata or {}).get(b"huggingface")
    if stored is None:
        return {}
    try:
        features = json.loads(stored)["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    return features if isinstance(features, dict) else {}


def _class_names(feature: Any) -> tuple[str, ...] | None:
    if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
        names = feature.get("names")
        return tuple(str(name) for name in names) if names else None
    return None


def _image_column(schema: pa.Schema, features: Mapping[str, Any], source: str) -> str:
    declared = [n for n, f in features.items() if isinstance(f, dict) and f.get("_type") == "Image"]
    candidates = [n for n in declared if n in schema.names]
    candidates = candidates or [field.name for field in schema if _may_hold_images(field.type)]
    for usual in ("image", "img"):
        if usual in candidates:
            return usual
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise UserError(
            f"{source} has no image column; it must hold images as binary, or as a struct of "
            "bytes and path."
        )
    raise UserError(
        f"{source} has several columns that may hold images ({', '.join(candidates)}); call the "
        "right one 'image'."
    )


def _may_hold_images(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return "bytes" in {kind.field(i).name for i in range(kind.num_fields)}
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _sort_columns(schema: pa.Schema, image: str) -> tuple[list[str], dict[str, str]]:
    usable: list[str] = []
    left_out: dict[str, str] = {}
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if field.name == image:
            continue
        if text or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            usable.append(field.name)
        else:
            left_out[field.name] = f"holds values of type {kind}, not text or whole numbers"
    return usable, left_out


def _image_bytes(cell: Any, place: str, beside: Path | None) -> tuple[str, bytes]:
    if isinstance(cell, bytes):
        return place, cell
    if isinstance(cell, dict):
        path = cell.get("path")
        name = f"{place} ({path})" if path else place
        if cell.get("bytes") is not None:
            return name, cell["bytes"]
        if path and beside is not None and _inside(beside, path):
            return name, read_file(beside / path)
    raise UserError(f"{place} has no image bytes; store the encoded image in every row.")


def _inside(folder: Path, path: str) -> bool:
    return (folder / path).resolve().is_relative_to(folder.resolve())


def _column(values: list[Value], classes: tuple[str, ...] | None) -> Column:
    if classes is None:
        return Column(values)
    # A ClassLabel of -1 is how a missing label is written.
    return Column([None if value == -1 else value for value in values], classes)
