"""What a release says of its privacy, as figures; its words are made from them.

`claim.json` holds both. A claim whose words differ from what its figures say is not
read at all, so the two cannot disagree. A format fixes the words too: change either and
the number must change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.data.schema import Schema
from understudy.errors import UserError
from understudy.privacy.plan.plan import json_number
from understudy.release.facts import SPLITS, MethodFacts, PublicInput, Randomness
from understudy.release.strict_json import Fields, parse_object, readable_bytes
from understudy.release.words import FORMAT, FORMAT_0_1, claim_in_words, unit_in_words

__all__ = [
    "FORMAT",
    "FORMAT_0_1",
    "Claim",
    "LedgerMark",
    "RecordsSummary",
    "Spending",
    "Tuning",
    "claim_in_words",
]

KINDS = ("central", "local", "empirical")
SCOPE = "this release only"
ON_TEST_DATA = "test data"
"""The value of `Tuning.by` for selection on test data, which no release may rest on."""


@dataclass(frozen=True)
class Tuning:
    """What was selected among, by what, and whether epsilon covers the selection.

    among: what the choice was between; empty when nothing was selected.
    by: the criterion; `ON_TEST_DATA` makes the result unreleasable.
    covered: true when the criterion and every run selected among are either public or
        charged. Selection among private runs by a synthetic criterion is covered only
        if all of those runs are in the price.
    """

    covered: bool
    among: tuple[str, ...] = ()
    by: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"covered": self.covered, "among": list(self.among), "by": self.by}

    @staticmethod
    def read(fields: Fields) -> Tuning:
        found = Tuning(fields.flag("covered"), fields.texts("among"), fields.optional_text("by"))
        fields.end()
        return found


@dataclass(frozen=True)
class LedgerMark:
    """Which released ledger a claim rests on: the hash of its last entry, and their number."""

    head: str
    length: int

    def to_json(self) -> dict[str, Any]:
        return {"head": self.head, "length": self.length}

    @staticmethod
    def read(fields: Fields) -> LedgerMark:
        found = LedgerMark(fields.hexadecimal("head"), fields.whole("length"))
        fields.end()
        return found


@dataclass(frozen=True)
class Spending:
    """One planned mechanism: uses planned and spent, and what the planned ones cost alone.

    shipped_by: the package that ships it; None if it is built in.
    """

    name: str
    kind: str
    planned: int
    spent: int
    sigma: float | None
    epsilon_alone: float
    shipped_by: str | None = None

    def to_json(self) -> dict[str, Any]:
        row = {
            "name": self.name,
            "kind": self.kind,
            "planned": self.planned,
            "spent": self.spent,
            "sigma": self.sigma,
            "epsilon_alone": json_number(self.epsilon_alone),
        }
        return row if self.shipped_by is None else {**row, "shipped_by": self.shipped_by}

    @staticmethod
    def read(fields: Fields) -> Spending:
        found = Spending(
            fields.text("name"),
            fields.text("kind"),
            fields.whole("planned"),
            fields.whole("spent"),
            fields.optional_number("sigma"),
            fields.number("epsilon_alone"),
            fields.text("shipped_by") if fields.has("shipped_by") else None,
        )
        fields.end()
        return found


@dataclass(frozen=True)
class RecordsSummary:
    """The released records: how many, the shape of one, and their schema.

    soft: the attributes that are probabilities of each class instead of one class; None in
        claims of version 0.1, which did not say, so that their tables decide.
    """

    count: int
    shape: tuple[int, ...]
    schema: Schema
    soft: tuple[str, ...] | None = ()

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or self.shape[0] not in (1, 3) or min(self.shape) < 1:
            raise UserError(
                "a release holds images [channels, height, width] of 1 or 3 channels, "
                f"not records of shape {list(self.shape)}."
            )
        soft = self.soft or ()
        if soft != tuple(name for name in self.schema.names if name in soft):
            raise UserError(
                f"soft must name attributes of the schema once each and in its order, not {soft}."
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "shape": list(self.shape),
            "schema": self.schema.to_json(),
            **({"soft": list(self.soft)} if self.soft else {}),
        }

    @staticmethod
    def read(fields: Fields, form: str) -> RecordsSummary:
        schema = _read_schema(fields.part("schema"))
        stated = fields.texts("soft") if fields.has("soft") else None
        unsaid = None if form == FORMAT_0_1 else ()
        found = RecordsSummary(
            fields.whole("count"),
            fields.wholes("shape"),
            schema,
            unsaid if stated is None else stated,
        )
        fields.end()
        return found


@dataclass(frozen=True)
class Claim:
    """A whole claim; `build.build_claim` computes it from a ledger.

    parts: the declared number of units of each part, where the method has several.
    """

    kind: str
    epsilon: float
    delta: float
    accountant: str
    unit: str | None
    relation: str
    tuning: Tuning
    split: str
    method: MethodFacts
    ledger: LedgerMark
    spending: tuple[Spending, ...]
    records: RecordsSummary
    assumed_public: tuple[str, ...] = ()
    randomness: Randomness = field(default_factory=Randomness)
    public_inputs: tuple[PublicInput, ...] = ()
    parts: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    scope: str = SCOPE
    format: str = FORMAT

    def __post_init__(self) -> None:
        if (self.kind == "empirical") != math.isinf(self.epsilon):
            raise UserError(
                f"a claim of kind {self.kind!r} cannot have epsilon {self.epsilon}; "
                "epsilon is infinite exactly when the kind is empirical."
            )
        if not 0 < self.delta < 1:
            raise UserError(f"delta of a claim must lie between 0 and 1, not {self.delta}.")

    @property
    def statement(self) -> list[str]:
        return claim_in_words(self)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "statement": self.statement,
            "kind": self.kind,
            "epsilon": json_number(self.epsilon),
            "delta": self.delta,
            "accountant": self.accountant,
            "unit": {"column": self.unit, "words": unit_in_words(self.unit)},
            "relation": self.relation,
            "scope": self.scope,
            "assumed_public": list(self.assumed_public),
            "randomness": self.randomness.to_json(),
            "tuning": self.tuning.to_json(),
            "public_inputs": [p.to_json() for p in self.public_inputs],
            "split": self.split,
            **({"parts": dict(self.parts)} if self.parts else {}),
            "method": self.method.to_json(),
            "ledger": self.ledger.to_json(),
            "spending": [s.to_json() for s in self.spending],
            "versions": dict(self.versions),
            "records": self.records.to_json(),
        }

    def to_bytes(self) -> bytes:
        """The one form of this claim as a file."""
        return readable_bytes(self.to_json())

    @staticmethod
    def from_bytes(data: bytes, where: str = "claim.json") -> Claim:
        return Claim.from_json(parse_object(data, where), where)

    @staticmethod
    def from_json(data: Mapping[str, Any], where: str = "claim.json") -> Claim:
        """Read a claim strictly; words that differ from the figures are refused."""
        fields = Fields(data, where)
        form = fields.one_of("format", (FORMAT, FORMAT_0_1))
        statement = list(fields.texts("statement"))
        claim = _read_claim(fields, form)
        fields.end()
        for number, (said, meant) in enumerate(
            zip(statement, claim.statement, strict=False), start=1
        ):
            if said != meant:
                raise UserError(
                    f"{where}: sentence {number} of the statement says {said!r}, "
                    f"but its figures say {meant!r}."
                )
        if len(statement) != len(claim.statement):
            raise UserError(
                f"{where}: the statement has {len(statement)} sentences, "
                f"but its figures make {len(claim.statement)}."
            )
        return claim


def _read_claim(fields: Fields, form: str) -> Claim:
    return Claim(
        format=form,
        kind=fields.one_of("kind", KINDS),
        epsilon=fields.number("epsilon"),
        delta=fields.number("delta"),
        accountant=fields.text("accountant"),
        unit=_read_unit(fields.part("unit")),
        relation=fields.text("relation"),
        scope=fields.one_of("scope", (SCOPE,)),
        assumed_public=fields.texts("assumed_public"),
        randomness=Randomness.read(fields.part("randomness")),
        tuning=Tuning.read(fields.part("tuning")),
        public_inputs=tuple(PublicInput.read(p) for p in fields.parts("public_inputs")),
        split=fields.one_of("split", SPLITS),
        parts=_read_counts(fields.part("parts")) if fields.has("parts") else {},
        method=MethodFacts.read(fields.part("method")),
        ledger=LedgerMark.read(fields.part("ledger")),
        spending=tuple(Spending.read(s) for s in fields.parts("spending")),
        versions=fields.text_mapping("versions"),
        records=RecordsSummary.read(fields.part("records"), form),
    )


def _read_unit(fields: Fields) -> str | None:
    column = fields.optional_text("column")
    fields.one_of("words", (unit_in_words(column),))
    fields.end()
    return column


def _read_counts(fields: Fields) -> dict[str, int]:
    found = {name: fields.whole(name) for name in fields.names()}
    fields.end()
    return found


def _read_schema(fields: Fields) -> Schema:
    attributes = []
    for attribute in fields.parts("attributes"):
        attributes.append(
            {"name": attribute.text("name"), "classes": list(attribute.texts("classes"))}
        )
        attribute.end()
    found = {
        "attributes": attributes,
        "label": fields.optional_text("label"),
        "sensitive": list(fields.texts("sensitive")),
        "utility": list(fields.texts("utility")),
    }
    fields.end()
    return Schema.from_json(found)
