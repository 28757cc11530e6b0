"""`collection.json`: what a collection says of itself, and whether its terms support it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from understudy.data.schema import Attribute, Schema
from understudy.encoders.citation import Citation
from understudy.encoders.encoder import Encoder
from understudy.federated.contribution import CONTENTS
from understudy.federated.merging import NOT_SENT, Merged
from understudy.federated.terms import Term, WeakestPromise
from understudy.release.build import current_versions
from understudy.release.claim import SCOPE
from understudy.release.claim_check import close
from understudy.release.strict_json import Fields, parse_object, readable_bytes

CLAIM = "collection.json"
FORMAT = "understudy-collection/1"
_PACKAGES = (
    *("python", "understudy", "torch", "numpy"),
    *("dp-accounting", "opacus", "pyarrow", "pillow"),
)
"""Whose versions this format may state, in this order. Version 0.1 stated that of opacus."""

_VERSION = re.compile(r"[0-9][0-9a-z.+]{0,40}")
_ACCOUNTANT_VERSION = re.compile(rf"(?<=, dp_accounting ){_VERSION.pattern}\Z")


@dataclass(frozen=True)
class SentLabel:
    """A label, and how many records have it."""

    attribute: Attribute
    sent: int

    def to_json(self) -> dict[str, Any]:
        classes = list(self.attribute.classes)
        return {"name": self.attribute.name, "classes": classes, "sent": self.sent}


@dataclass(frozen=True)
class SentRecords:
    """The records of a collection: how many, of what, the shape of one, and their labels."""

    count: int
    content: str
    shape: tuple[int, ...]
    labels: tuple[SentLabel, ...]

    @property
    def schema(self) -> Schema:
        return Schema(tuple(label.attribute for label in self.labels))

    def to_json(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "content": self.content,
            "shape": list(self.shape),
            "labels": [label.to_json() for label in self.labels],
        }

    @staticmethod
    def of(merged: Merged) -> SentRecords:
        agreement = merged.agreement
        labels = tuple(
            SentLabel(a, int((merged.labels[a.name] != NOT_SENT).sum()))
            for a in agreement.labels
            if a.name in merged.labels
        )
        return SentRecords(len(merged), agreement.content, tuple(agreement.shape), labels)

    @staticmethod
    def read(fields: Fields) -> SentRecords:
        labels = tuple(
            SentLabel(Attribute(label.text("name"), label.texts("classes")), label.whole("sent"))
            for label in fields.parts("labels")
        )
        content = fields.one_of("content", CONTENTS)
        return SentRecords(fields.whole("count"), content, fields.wholes("shape"), labels)


@dataclass(frozen=True)
class CollectionClaim:
    """The claim of a collection; what its encoder learnt from is the agreement's to say."""

    promise: WeakestPromise
    terms: tuple[Term, ...]
    records: SentRecords
    versions: Mapping[str, str]

    @staticmethod
    def of(merged: Merged) -> CollectionClaim:
        promise = WeakestPromise.of(merged.terms, merged.agreement.encoder)
        return CollectionClaim(promise, merged.terms, SentRecords.of(merged), current_versions())

    @property
    def users(self) -> int:
        return sum(term.users for term in self.terms)

    @property
    def statement(self) -> list[str]:
        return self.promise.words(self.users)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "statement": self.statement,
            **self.promise.to_json(),
            "scope": SCOPE,
            "terms": [term.to_json() for term in self.terms],
            "users": self.users,
            "records": self.records.to_json(),
            "versions": {n: self.versions[n] for n in _PACKAGES if n in self.versions},
        }

    def to_bytes(self) -> bytes:
        """The one form of this claim as a file."""
        return readable_bytes(self.to_json())

    @staticmethod
    def from_bytes(data: bytes) -> CollectionClaim:
        """Read what nothing else in the claim implies, and make the rest from it.

        Whoever holds `to_bytes` against the file sees every word that is somebody's own.
        """
        content = parse_object(data, CLAIM)
        fields = Fields(content, CLAIM)
        terms = tuple(map(Term.from_json, content["terms"]))
        promise = replace(
            WeakestPromise.of(terms, Citation.from_json(content["encoder"])),
            epsilon=fields.number("epsilon"),
            user_epsilon=fields.number("user_epsilon"),
            accountant=fields.text("accountant"),
        )
        records = SentRecords.read(fields.part("records"))
        return CollectionClaim(promise, terms, records, fields.text_mapping("versions"))


def claim_problems(claim: CollectionClaim) -> list[str]:
    """Where a claim says something else than follows from its terms and its encoder."""
    expected = WeakestPromise.of(claim.terms, claim.promise.encoder)
    problems = [
        f"its {name} does not follow from the terms that users sent under."
        for name in ("epsilon", "user_epsilon", "accountant")
        if not _same(getattr(claim.promise, name), getattr(expected, name))
    ]
    if [term.order for term in claim.terms] != sorted({term.order for term in claim.terms}):
        problems.append("its terms are not listed once each, in their order.")
    if sum(term.records for term in claim.terms) != claim.records.count:
        problems.append("its records are not as many as its terms say.")
    if not all(_VERSION.fullmatch(version) for version in claim.versions.values()):
        problems.append("its versions are not all plain versions.")
    return problems + label_problems(claim.records.labels, claim.terms)


def label_problems(labels: Sequence[SentLabel], terms: Sequence[Term]) -> list[str]:
    """Labels that no term covers, and labels of terms that are not there.

    A local channel names the labels that it sends, for every record. A filter may send any.
    """
    free = sum(term.records for term in terms if term.channel is None)
    named: Counter[str] = Counter()
    for term in terms:
        if term.channel is not None:
            names = {*term.channel.label_epsilons, *term.channel.public_labels}
            named.update(dict.fromkeys(names, term.records))
    sent = {label.attribute.name: label.sent for label in labels}
    problems = [
        f"label {name!r} was sent under its terms, and is not among its labels."
        for name in sorted(named)
        if name not in sent
    ]
    problems += [
        f"label {name!r} is there for {count} records; its terms cover {named[name]} to "
        f"{named[name] + free}."
        for name, count in sent.items()
        if not max(1, named[name]) <= count <= named[name] + free
    ]
    if len(sent) != len(labels):
        problems.append("a label is listed twice.")
    return problems


def encoder_problems(claim: CollectionClaim, encoder: Encoder) -> list[str]:
    """Where a claim says something else of its encoder than the encoder's own file."""
    problems = [f"{problem}." for problem in claim.promise.encoder.problems(encoder)]
    channels = [term.channel for term in claim.terms]
    if any(c is not None and c.radius != encoder.radius for c in channels):
        problems.append("its noise is for another radius than the encoder's.")
    problems += [
        f"label {label.attribute.name!r} is not as the encoder's file declares it."
        for label in claim.records.labels
        if label.attribute not in encoder.schema.attributes
    ]
    return problems


def _same(said: float | str, expected: float | str) -> bool:
    """Whether another machine, with another version of the accountant, may say so."""
    if isinstance(said, str):
        return _ACCOUNTANT_VERSION.sub("", said) == _ACCOUNTANT_VERSION.sub("", str(expected))
    return close(said, float(expected))
