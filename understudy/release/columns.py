"""Columns of released tables, as `datasets.load_dataset` shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from understudy.data.schema import Attribute
from understudy.release.png import png_problem

IMAGE = "image"
IMAGE_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
VECTOR_TYPE = pa.list_(pa.field("element", pa.float32()))
_METADATA_KEY = b"huggingface"


@dataclass(frozen=True)
class Column:
    """A column, its type, and what `datasets` needs to know of it."""

    name: str
    type: pa.DataType
    feature: Mapping[str, Any]


def image_column() -> Column:
    return Column(IMAGE, IMAGE_TYPE, {"_type": "Image"})


def vector_column(name: str) -> Column:
    value = {"dtype": "float32", "_type": "Value"}
    return Column(name, VECTOR_TYPE, {"feature": value, "_type": "Sequence"})


def class_column(attribute: Attribute) -> Column:
    feature = {"names": list(attribute.classes), "_type": "ClassLabel"}
    return Column(attribute.name, pa.int64(), feature)


def class_name_of(soft: str) -> str:
    """The column beside a soft attribute: its most probable class, with the classes' names, which
    a list of numbers has no place for.

    >>> class_name_of("digit")
    'digit_class'
    """
    return f"{soft}_class"


def soft_columns(attribute: Attribute) -> tuple[Column, Column]:
    """A soft attribute: its probabilities, and the most probable class."""
    classes = class_column(Attribute(class_name_of(attribute.name), attribute.classes))
    return vector_column(attribute.name), classes


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    columns = list(columns)
    features = {column.name: column.feature for column in columns}
    metadata = {_METADATA_KEY: json.dumps({"info": {"features": features}}).encode()}
    return pa.schema([(column.name, column.type) for column in columns], metadata=metadata)


def png_of(image: Mapping[str, Any] | None) -> bytes:
    return (image or {}).get("bytes") or b""


def image_problem(image: Mapping[str, Any] | None, shape: tuple[int, ...]) -> str | None:
    """What an image is that no release may hold; nothing rides along in it or in its name."""
    problem = png_problem(png_of(image), shape)
    if problem is None and image is not None and image["path"] is not None:
        return "carries a file name"
    return problem
