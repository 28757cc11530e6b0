"""What was measured of trained classifiers, apart from the networks themselves.

Figures may come from another machine, where the classifiers were trained: a `Binding` says
which records and which protocol they are about, so that others are not taken for them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.errors import UserError
from understudy.evaluation.protocol import Protocol

_CHUNK = 4096
"""Records that are hashed at a time: features may be mapped from a file."""


class FigureKey(NamedTuple):
    """Which classifier, by what it learned from, and on which part it was measured."""

    learned: str
    tested: str
    classifier: str
    rule: str
    seed: int


@dataclass(frozen=True)
class ClassifierFigure:
    """One classifier trained on the part `learned` and measured on the part `tested`.

    rule, epoch, score: what chose its epoch, which, and the accuracy that chose it.
    accuracy: None where the training diverged, and `reason` then says so.
    by_class: of each class, how many records were recognised and how many there were; None in
        what version 0.1 measured.
    """

    learned: str
    tested: str
    classifier: str
    rule: str
    seed: int
    accuracy: float | None
    epoch: int | None = None
    score: float | None = None
    reason: str | None = None
    by_class: tuple[tuple[int, int], ...] | None = None

    @property
    def key(self) -> FigureKey:
        return FigureKey(self.learned, self.tested, self.classifier, self.rule, self.seed)

    def known_accuracy(self) -> float:
        """The accuracy; of a training that diverged, what it raised then."""
        if self.accuracy is None:
            raise FloatingPointError(self.reason)
        return self.accuracy

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ClassifierFigure:
        known = {f.name: data[f.name] for f in fields(ClassifierFigure) if f.name != "by_class"}
        counts = data.get("by_class")
        by_class = None if counts is None else tuple((int(a), int(b)) for a, b in counts)
        return ClassifierFigure(**known, by_class=by_class)


class ClassifierFigures:
    """A table of figures; the first of a key stays.

    on_new: called after each figure that is added, so that it can be kept.
    """

    def __init__(
        self, known: Iterable[ClassifierFigure] = (), on_new: Callable[[], None] | None = None
    ) -> None:
        self._figures: dict[FigureKey, ClassifierFigure] = {}
        for figure in known:
            self._figures.setdefault(figure.key, figure)
        self._on_new = on_new

    def find(self, key: FigureKey) -> ClassifierFigure | None:
        return self._figures.get(key)

    def keep(self, figure: ClassifierFigure) -> None:
        if figure.key in self._figures:
            return
        self._figures[figure.key] = figure
        if self._on_new is not None:
            self._on_new()

    def __iter__(self) -> Iterator[ClassifierFigure]:
        return iter(self._figures.values())

    def __len__(self) -> int:
        return len(self._figures)


@dataclass(frozen=True)
class Binding:
    """What figures are about: digests of the records and of the protocol.

    seed: of the evaluation. version: of the code that measures, raised by hand.
    The digests of real records are the owner's and stand in no evidence.
    """

    synthetic: str
    train: str
    test: str
    protocol: str
    seed: int
    version: int

    @staticmethod
    def of(
        synthetic: Records,
        train: Records | str,
        test: Records,
        protocol: Protocol,
        *,
        seed: int,
        version: int,
    ) -> Binding:
        """train: the records, or their digest where they are not at hand."""
        return Binding(
            synthetic=records_digest(synthetic),
            train=train if isinstance(train, str) else records_digest(train),
            test=records_digest(test),
            protocol=protocol_digest(protocol),
            seed=seed,
            version=version,
        )

    def check(self, wanted: Binding, where: str) -> None:
        """Refuse figures that are about something else, naming what differs."""
        for name, words in _BINDING_WORDS.items():
            if getattr(self, name) != getattr(wanted, name):
                raise UserError(
                    f"{where} holds figures of classifiers for {words}; remove it, and they "
                    "are trained here."
                )


_BINDING_WORDS = {
    "synthetic": "other samples",
    "train": "other real training records",
    "test": "other test records",
    "protocol": "another protocol",
    "seed": "another seed",
    "version": "another version of the evaluation",
}


def records_digest(records: Records) -> str:
    """Of all that a classifier learns from: features, labels and the names of the classes."""
    label = records.schema.label_attribute
    column = records.attributes[label.name]
    labels = column.astype(np.int64) if column.ndim == 1 else column
    digest = hashlib.sha256()
    for words in (label.classes, _kind(records.features), _kind(labels)):
        digest.update(json.dumps(words).encode() + b"\0")
    for start in range(0, len(records), _CHUNK):
        digest.update(records.features[start : start + _CHUNK].tobytes())
    digest.update(labels.tobytes())
    return digest.hexdigest()


def protocol_digest(protocol: Protocol) -> str:
    text = json.dumps(protocol.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def only_label(records: Records) -> Records:
    """The records with their label and nothing else that is known of them."""
    label = records.schema.label_attribute
    columns = {label.name: records.attributes[label.name]}
    return replace(
        records, attributes=columns, schema=Schema((label,), label=label.name), units=None
    )


def _kind(array: np.ndarray[Any, Any]) -> list[Any]:
    return [array.dtype.str, list(array.shape)]
