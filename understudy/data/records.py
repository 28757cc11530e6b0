"""Records: features with annotations, held as arrays that may be memory-mapped."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.data.schema import Schema
from understudy.errors import UserError

Array = npt.NDArray[Any]

SUM_TOLERANCE = 1e-3
"""How far from 1 the probabilities of one record may add up: half precision comes this close."""


@dataclass(frozen=True)
class Records:
    """Examples with their attributes.

    features: `uint8 [N, C, H, W]` images, or `float32 [N, D]` latents or table rows.
    attributes: per name, integer codes `[N]`, or class probabilities `float [N, K]` (soft
        labels) whose rows are finite, not negative, and add up to 1.
    units: per record, the name of the person (or other unit) it belongs to; `None`
        means that every record is a unit of its own.
    """

    features: Array
    attributes: Mapping[str, Array]
    schema: Schema
    units: Array | None = field(default=None)

    def __post_init__(self) -> None:
        count = len(self.features)
        for name in self.attributes:
            self.schema.attribute(name)
        for attribute in self.schema.attributes:
            if attribute.name not in self.attributes:
                raise UserError(f"attribute {attribute.name!r} is declared but has no column.")
            _check_column(
                attribute.name, self.attributes[attribute.name], count, len(attribute.classes)
            )
        if self.units is not None and len(self.units) != count:
            raise UserError(f"units has {len(self.units)} entries for {count} records.")

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        form = "x".join(map(str, self.shape))
        named = ", ".join(f"{a.name}: {len(a.classes)} classes" for a in self.schema.attributes)
        return f"{type(self).__name__}({len(self):,} of {form}{f'; {named}' if named else ''})"

    def _repr_html_(self) -> str | None:
        """The first pictures of each class, for the notebook of whoever holds the records."""
        if not self.is_images or not len(self):
            return None
        from understudy.data.contact_sheet import sheet_of, to_html, to_png

        return to_html(to_png(sheet_of(self)), repr(self))

    @property
    def is_images(self) -> bool:
        return self.features.ndim == 4 and self.features.dtype == np.uint8

    @property
    def soft(self) -> tuple[str, ...]:
        """The attributes that hold probabilities instead of codes, in the schema's order."""
        return tuple(name for name in self.schema.names if self.attributes[name].ndim == 2)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one record's features: (channels, height, width) for images."""
        return tuple(self.features.shape[1:])

    @property
    def labels(self) -> Array:
        """Integer codes of the label; soft labels give their most probable class."""
        column = self.attributes[self.schema.label_attribute.name]
        return column if column.ndim == 1 else column.argmax(axis=1)

    def select(self, which: npt.ArrayLike | Sequence[int]) -> Records:
        """The records at these positions, or where this mask is true, in order."""
        chosen = np.asarray(which)
        if not chosen.size and chosen.dtype != np.bool_:
            chosen = chosen.astype(np.int64)
        return replace(
            self,
            features=self.features[chosen],
            attributes={name: column[chosen] for name, column in self.attributes.items()},
            units=None if self.units is None else self.units[chosen],
        )

    def with_schema(self, schema: Schema) -> Records:
        return replace(self, schema=schema)


class Images(Records):
    """The pixel case: `uint8 [N, C, H, W]` with one or three channels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.is_images or self.features.shape[1] not in (1, 3):
            raise UserError(
                "images must be a uint8 array [count, channels, height, width], 1 or 3 channels, "
                f"not {self.features.dtype} {list(self.features.shape)}."
            )

    @property
    def channels(self) -> int:
        return int(self.features.shape[1])

    @property
    def height(self) -> int:
        return int(self.features.shape[2])

    @property
    def width(self) -> int:
        return int(self.features.shape[3])


def concatenate(sets: Sequence[Records]) -> Records:
    """All records of several sets with the same schema, in order."""
    first = sets[0]
    if any(s.schema != first.schema for s in sets):
        raise UserError("sets of records with different schemas cannot be joined.")
    units = None
    if all(s.units is not None for s in sets):
        units = np.concatenate([np.asarray(s.units) for s in sets])
    return replace(
        first,
        features=np.concatenate([s.features for s in sets]),
        attributes={n: np.concatenate([s.attributes[n] for s in sets]) for n in first.attributes},
        units=units,
    )


def ordered_digest(records: Records) -> bytes:
    """A digest of records and their order."""
    digest = hashlib.sha256(repr((records.features.shape, records.features.dtype)).encode())
    digest.update(np.ascontiguousarray(records.features).tobytes())
    for name in sorted(records.attributes):
        digest.update(name.encode() + np.ascontiguousarray(records.attributes[name]).tobytes())
    if records.units is not None:
        digest.update("\0".join(str(unit) for unit in records.units.tolist()).encode())
    return digest.digest()


def _check_column(name: str, column: Array, count: int, classes: int) -> None:
    if len(column) != count:
        raise UserError(f"attribute {name!r} has {len(column)} values for {count} records.")
    if column.ndim == 1:
        if not np.issubdtype(column.dtype, np.integer):
            raise UserError(f"attribute {name!r} must hold integer codes, not {column.dtype}.")
        if count and (column.min() < 0 or column.max() >= classes):
            raise UserError(f"attribute {name!r} has codes outside its {classes} declared classes.")
    elif column.ndim != 2 or column.shape[1] != classes:
        raise UserError(f"attribute {name!r} must be [N] codes or [N, {classes}] probabilities.")
    else:
        _check_probabilities(name, column)


def _check_probabilities(name: str, column: Array) -> None:
    if not np.issubdtype(column.dtype, np.floating):
        raise UserError(
            f"attribute {name!r} must hold probabilities as floating-point numbers, "
            f"not {column.dtype}."
        )
    # A comparison with NaN is false, so a row that holds one is refused too.
    with np.errstate(invalid="ignore"):
        sound = np.abs(column.sum(axis=1, dtype=np.float64) - 1) <= SUM_TOLERANCE
    sound &= (column >= 0).all(axis=1)
    if not sound.all():
        raise UserError(
            f"attribute {name!r} must hold probabilities, finite and not negative, that add up to "
            f"1 (within {SUM_TOLERANCE}); row {int(sound.argmin())} does not."
        )
