"""What the catalog knows of a dataset: public facts, none of them measured on the run's data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml


@dataclass(frozen=True)
class PartFacts:
    """What is published about one part.

    pixels, labels: sha256 of all pixels and of all label codes, in the published order.
    per_class: how many images each class of the label has, in the order of the classes.
    files: the raw files that hold this part, where the format does not fix their names.
    excerpts: how many images known excerpts of this part have.
    mean, deviation: of all pixels by channel, in [0, 1], where that is well known: they tell
        the set whatever order its images lie in.
    """

    count: int
    pixels: str | None = None
    labels: str | None = None
    per_class: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    excerpts: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()


@dataclass(frozen=True)
class Terms:
    """What may be done in public with a dataset, and why.

    pictures_shown: whether its pictures, and those of a model of it, may stand in what others
        see: a shareable report, a page, evidence.
    models_shipped: whether a model trained on it may be handed on.
    because: the licence's reason, as the end of a sentence.
    """

    pictures_shown: bool
    models_shipped: bool
    because: str


@dataclass(frozen=True)
class Entry:
    """One dataset of the catalog. Everything here is public knowledge about it.

    kind: how its raw files are written; `sources/readers.py` says who reads them.
    terms: what may be done with its pictures and with models of it. Every entry must say.
    label: the attribute to learn where the caller names none; `None` makes them name one.
    split: in words, how the parts came about, for a claim to repeat.
    shape: (channels, height, width) of the images as they are loaded; (columns,) of a table.
    stored: the same as they lie in the raw files, where those are larger.
    classes, others: the classes of the label, and of every further attribute.
    unit: the column that says whom an image belongs to, where that is known.
    files: in words, the raw files to put into the dataset's folder.
    archives: names (or patterns) of archives that hold them; `roots`: the folders that
        they may lie in, there or in the dataset's folder.
    md5: of the standard compressed files, as their authors published them.
    hub: the repository of the Hugging Face Hub that holds the same data.
    notes: in words, what whoever measures with it must know.
    """

    name: str
    summary: str
    kind: str
    provenance: str
    homepage: str | None
    licence: str
    terms: Terms
    public: bool
    label: str | None
    split: str
    shape: tuple[int, ...]
    parts: Mapping[str, PartFacts]
    stored: tuple[int, ...] | None = None
    classes: tuple[str, ...] = ()
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit: str | None = None
    files: str = ""
    archives: tuple[str, ...] = ()
    roots: tuple[str, ...] = ("",)
    hub: str | None = None
    md5: Mapping[str, str] = field(default_factory=dict)
    notes: str = ""

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return self.stored or self.shape

    @property
    def is_table(self) -> bool:
        """Whether records are rows of a table, not images."""
        return len(self.shape) == 1

    @property
    def where_from(self) -> str:
        """The tail of an error about its raw files."""
        return f"get the standard files from {self.homepage}"


def read_entries(text: str) -> dict[str, Entry]:
    """The entries of `catalog.yaml`, by name."""
    # The C loader is ten times as fast, and every command reads the catalog.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    facts = yaml.load(text, Loader=loader)
    return {name: _entry(name, known) for name, known in facts.items()}


def _entry(name: str, facts: Mapping[str, Any]) -> Entry:
    known = dict(facts)
    for key in ("shape", "stored", "classes", "archives", "roots"):
        if key in known:
            known[key] = tuple(known[key])
    known["others"] = {other: tuple(classes) for other, classes in facts.get("others", {}).items()}
    known["terms"] = Terms(**facts["terms"])
    known["parts"] = {part: _part(found) for part, found in facts["parts"].items()}
    return Entry(name=name, **known)


def _part(facts: Mapping[str, Any]) -> PartFacts:
    """`per_class` may be one number: then every class has as many."""
    known = dict(facts)
    per_class = known.get("per_class", ())
    if isinstance(per_class, int):
        per_class = (per_class,) * (known["count"] // per_class)
    known["per_class"] = tuple(per_class)
    for key in ("files", "excerpts", "mean", "deviation"):
        known[key] = tuple(known.get(key, ()))
    return PartFacts(**known)
