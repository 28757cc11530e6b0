"""What a set of records declares about itself: attributes, their classes, their roles.

Everything in a schema is *declared* by the owner and counts as public: names of
attributes and classes, image size. Nothing here is measured on private records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from understudy.data.persons import person_columns
from understudy.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Attribute:
    """One column of annotations; a record's value is a code into `classes`."""

    name: str
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        words = (self.name, *self.classes)
        if not all(isinstance(word, str) for word in words):
            wrong = next(word for word in words if not isinstance(word, str))
            raise UserError(
                f"attribute {self.name!r}: names of attributes and classes are text, not {wrong!r}."
            )
        if not self.classes:
            raise UserError(f"attribute {self.name!r} has no classes; name at least one.")
        if len(set(self.classes)) != len(self.classes):
            raise UserError(
                f"attribute {self.name!r} names a class twice; class names must differ."
            )


@dataclass(frozen=True)
class Schema:
    """Attributes and the roles they play in a run.

    `label` is what a classifier learns and what a method is conditioned on;
    `sensitive` attributes are to be hidden, `utility` attributes are to be kept.
    """

    attributes: tuple[Attribute, ...]
    label: str | None = None
    sensitive: tuple[str, ...] = ()
    utility: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [a.name for a in self.attributes]
        if len(set(names)) != len(names):
            raise UserError("two attributes share a name; attribute names must differ.")
        for name in (*((self.label,) if self.label else ()), *self.sensitive, *self.utility):
            self.attribute(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.attributes)

    def attribute(self, name: str) -> Attribute:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise UserError(f"no attribute {name!r} in the data; {did_you_mean(name, self.names)}")

    @property
    def label_attribute(self) -> Attribute:
        """The attribute in the role of label; an error says how to choose one."""
        if self.label is None:
            if not self.names:
                raise UserError(
                    "the data have no column that could be the label; put images into folders "
                    "named after their class, or add a column of at most 1000 classes."
                )
            raise UserError(f"no label was chosen; {self._choices_of_label()}")
        return self.attribute(self.label)

    def _choices_of_label(self) -> str:
        """What could be the label; a column that names persons is offered as what it is."""
        persons = person_columns(self.names)
        labels = [name for name in self.names if name not in persons] or self.names
        chosen = f"pass --label with one of: {', '.join(labels)}"
        if not persons:
            return f"{chosen}."
        return (
            f"{chosen}; and --unit {persons[0]}, which seems to say whose a record is: without it "
            "images are protected, and persons are not."
        )

    @property
    def classes(self) -> tuple[str, ...]:
        return self.label_attribute.classes

    def with_roles(
        self,
        label: str | None = None,
        sensitive: Iterable[str] = (),
        utility: Iterable[str] = (),
    ) -> Schema:
        return replace(
            self,
            label=label if label is not None else self.label,
            sensitive=tuple(sensitive) or self.sensitive,
            utility=tuple(utility) or self.utility,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "attributes": [{"name": a.name, "classes": list(a.classes)} for a in self.attributes],
            "label": self.label,
            "sensitive": list(self.sensitive),
            "utility": list(self.utility),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Schema:
        return Schema(
            attributes=tuple(Attribute(a["name"], tuple(a["classes"])) for a in data["attributes"]),
            label=data.get("label"),
            sensitive=tuple(data.get("sensitive", ())),
            utility=tuple(data.get("utility", ())),
        )
