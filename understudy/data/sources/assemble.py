"""From annotation columns to records: which columns are attributes, with which classes.

What is refused here is a record that is none (it has no label, or one that nobody declared), a
name, or a form. How many records have something in common is never a reason: it is said, and
loading goes on, because whether a private run is released must not depend on somebody else's
record.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.data.records import Array, Images, Records
from understudy.data.schema import Attribute, Schema
from understudy.data.sources.raw import Column, RawPart, Value
from understudy.errors import MixedSizesError, UserError, did_you_mean
from understudy.progress import Progress

MOST_CLASSES = 1000
_MOST_NAMED = 10

_WHOLE_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True)
class Roles:
    """What the caller asked of the columns; `None` leaves the choice to the source.

    classes: the class names of the label, declared by the owner, in this order. Then
        loading does not depend on which classes occur, or how often.
    declared: attributes as something public has them, an encoder's file. A column of that name
        gets those classes, in that order, whichever of them occur and however often.
    """

    label: str | None = None
    unit: str | None = None
    classes: tuple[str, ...] | None = None
    declared: Schema | None = None

    def classes_of(self, name: str, column: Column) -> tuple[str, ...]:
        found = column.classes or _classes_found(column)
        for attribute in self.declared.attributes if self.declared else ():
            if attribute.name == name and set(found) <= set(attribute.classes):
                return attribute.classes
        return found


def assemble(
    raw: Mapping[str, RawPart], roles: Roles, source: str, progress: Progress
) -> dict[str, Records]:
    """The records of each part, all of one form and with one schema.

    Guarantee: whether this refuses follows from the names of columns and classes, the form of an
    image, and each record by itself; never from how many records there are of a kind.
    """
    _require_one_form(raw, source)
    columns, left_out = _shared_columns(raw)
    units = _units(raw, columns, left_out, roles, source)
    if roles.unit is not None:
        columns.pop(roles.unit)
    names = [name for part in raw.values() for name in part.names]
    attributes: dict[str, Attribute] = {}
    for name, column in columns.items():
        reason = _why_not_an_attribute(column, names)
        if reason is None:
            attributes[name] = Attribute(name, roles.classes_of(name, column))
        else:
            left_out[name] = reason
    label = _choose_label(attributes, left_out, roles, source)
    if label is None and roles.classes is not None:
        raise UserError(f"classes were declared without a label; name the label of {source} too.")
    if label is not None and roles.classes is not None:
        attributes[label] = Attribute(label, roles.classes)
        for name in columns[label].named:
            _require_declared(name, attributes[label])
    elif label is not None and columns[label].classes is None and roles.declared is None:
        _say_rare_classes(attributes[label], columns[label], progress)
    schema = Schema(tuple(attributes.values()), label=label)
    return {part: _records(raw[part], schema, units.get(part)) for part in raw}


def _shared_columns(raw: Mapping[str, RawPart]) -> tuple[dict[str, Column], dict[str, str]]:
    """Columns that every part has, joined over the parts; the others with their reason."""
    left_out: dict[str, str] = {}
    for part in raw.values():
        left_out.update(part.left_out)
    columns: dict[str, Column] = {}
    for name in dict.fromkeys(name for part in raw.values() for name in part.columns):
        pieces = [part.columns.get(name) for part in raw.values()]
        present = [piece for piece in pieces if piece is not None]
        if name in left_out:
            continue
        if len(present) < len(pieces):
            left_out[name] = "is not in every part"
        elif len({piece.classes for piece in present}) > 1:
            left_out[name] = "has other class names in one part than in another"
        else:
            named = tuple(dict.fromkeys(one for piece in present for one in piece.named))
            columns[name] = Column(_joined(present), present[0].classes, named)
    return columns, left_out


def _joined(pieces: Sequence[Column]) -> Sequence[Value] | Array:
    arrays = [piece.values for piece in pieces if isinstance(piece.values, np.ndarray)]
    if len(arrays) == len(pieces):
        return np.concatenate(arrays)
    return [value for piece in pieces for value in piece.values]


def _why_not_an_attribute(column: Column, names: Sequence[str]) -> str | None:
    if isinstance(column.values, np.ndarray):
        return None
    if None in column.values:
        return f"has no value for {names[list(column.values).index(None)]}"
    if column.classes is None and len(_classes_found(column)) > MOST_CLASSES:
        return f"has more than {MOST_CLASSES} distinct values"
    return None


def _classes_found(column: Column) -> tuple[str, ...]:
    """The values that occur and the classes that have a place, by name; whole numbers by size."""
    found = {*(str(value) for value in column.values), *column.named}
    if all(_WHOLE_NUMBER.fullmatch(value) for value in found):
        return tuple(sorted(found, key=lambda value: (int(value), value)))
    return tuple(sorted(found))


def _choose_label(
    attributes: Mapping[str, Attribute], left_out: Mapping[str, str], roles: Roles, source: str
) -> str | None:
    """By the names of columns: whether one of them can be an attribute may hang on one record."""
    if roles.label is not None:
        if roles.label in left_out:
            raise UserError(
                f"column {roles.label!r} of {source} cannot be the label: it "
                f"{left_out[roles.label]}."
            )
        if roles.label not in attributes:
            raise UserError(
                f"no attribute {roles.label!r} in {source}; {did_you_mean(roles.label, attributes)}"
            )
        return roles.label
    if "label" in attributes:
        return "label"
    if "label" in left_out:
        raise UserError(f"column 'label' of {source} cannot be used: it {left_out['label']}.")
    return next(iter(attributes)) if len(attributes) == 1 and not left_out else None


def _require_one_form(raw: Mapping[str, RawPart], source: str) -> None:
    """A part is read by itself; only here do its images meet those of another."""
    forms = {part: content.pixels.shape[1:] for part, content in raw.items()}
    if len(set(forms.values())) > 1:
        told = ", ".join(f"{part} {'x'.join(map(str, form))}" for part, form in forms.items())
        raise MixedSizesError(
            f"the parts of {source} hold images of different forms ({told}); pass --size and "
            "--channels to make them one."
        )


def _say_rare_classes(label: Attribute, column: Column, progress: Progress) -> None:
    """What a person would want to know of them, and what must not stop a run."""
    counts = Counter(str(value) for value in column.values)
    for words, count in (("no image", 0), ("a single image", 1)):
        rare = [name for name in label.classes if counts[name] == count]
        if rare:
            names = ", ".join(map(repr, rare[:_MOST_NAMED]))
            more = f" and {len(rare) - _MOST_NAMED} more" if len(rare) > _MOST_NAMED else ""
            progress.say(
                f"warning: of {label.name!r} these classes have {words}: {names}{more}; their "
                "names are used as public all the same: merge a class into another, or drop it, "
                "if nobody may know of it."
            )


def _require_declared(name: str, attribute: Attribute) -> None:
    if name not in attribute.classes:
        raise UserError(
            f"class {name!r} of {attribute.name!r} is not among the declared classes; "
            f"{did_you_mean(name, attribute.classes)}"
        )


def _units(
    raw: Mapping[str, RawPart],
    columns: Mapping[str, Column],
    left_out: Mapping[str, str],
    roles: Roles,
    source: str,
) -> dict[str, Array]:
    if roles.unit is None:
        return {}
    if roles.unit in left_out:
        raise UserError(
            f"column {roles.unit!r} of {source} cannot be the unit: it {left_out[roles.unit]}."
        )
    if roles.unit not in columns:
        raise UserError(
            f"no column {roles.unit!r} to take units from in {source}; "
            f"{did_you_mean(roles.unit, columns)}"
        )
    units: dict[str, Array] = {}
    for part, content in raw.items():
        column = content.columns[roles.unit]
        if None in column.values:
            name = content.names[list(column.values).index(None)]
            raise UserError(f"{name} has no {roles.unit!r}; say whom each image belongs to.")
        units[part] = np.array([_spelled(value, column) for value in column.values])
    return units


def _records(part: RawPart, schema: Schema, units: Array | None) -> Records:
    coded = {a.name: _codes(part.columns[a.name], a) for a in schema.attributes}
    kind = Records if part.pixels.ndim == 2 else Images
    return kind(part.pixels, coded, schema, units)


def _codes(column: Column, attribute: Attribute) -> Array:
    if isinstance(column.values, np.ndarray) and column.classes == attribute.classes:
        return column.values.astype(np.int64)
    code_of = {name: code for code, name in enumerate(attribute.classes)}
    codes = np.empty(len(column.values), np.int64)
    for i, value in enumerate(_spelled_out(column)):
        name = _spelled(value, column)
        if name not in code_of:
            _require_declared(name, attribute)
        codes[i] = code_of[name]
    return codes


def _spelled_out(column: Column) -> Sequence[Value]:
    return column.values.tolist() if isinstance(column.values, np.ndarray) else column.values


def _spelled(value: str | int | None, column: Column) -> str:
    if column.classes is not None and isinstance(value, int):
        return column.classes[value] if 0 <= value < len(column.classes) else str(value)
    return str(value)
