"""The public facts of a run, as the first line of its ledger states them.

They are written into the ledger's plan entry (`body["run"]`) before private records are
touched, so a claim cannot later name another method, unit or split than the one that ran.
Everything here is declared; nothing is measured on private records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from understudy.privacy.plan.mechanisms import NOISES
from understudy.release.strict_json import Fields

SPLITS = ("keyed-hash", "given", "stratified", "none")
"""How records came into their parts: by keyed hash, by the owner, stratified, or not split."""


@dataclass(frozen=True)
class Randomness:
    """Where noise and sampling came from; `noise` names the arithmetic it was added in."""

    source: str = "ChaCha20 keyed by the operating system"
    noise: str = "float"
    insecure_seed: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "noise": self.noise,
            "insecure_seed": self.insecure_seed,
        }

    @staticmethod
    def read(fields: Fields) -> Randomness:
        found = Randomness(
            fields.text("source"), fields.one_of("noise", NOISES), fields.flag("insecure_seed")
        )
        fields.end()
        return found


RECORDS, WEIGHTS = "records", "weights"
"""The kinds of public inputs."""


@dataclass(frozen=True)
class InputFacts:
    """What is known of a public input beside its name and where it comes from.

    use: the method's name for it. licence: None where it is unknown.
    sha256: of the records' content as the method was given them, or of the file of weights.
    """

    use: str
    kind: str
    licence: str | None
    sha256: str

    def to_json(self) -> dict[str, Any]:
        return {
            "use": self.use,
            "kind": self.kind,
            "licence": self.licence,
            "sha256": self.sha256,
        }

    @staticmethod
    def read(fields: Fields) -> InputFacts:
        return InputFacts(
            fields.text("use"),
            fields.one_of("kind", (RECORDS, WEIGHTS)),
            fields.optional_text("licence"),
            fields.hexadecimal("sha256"),
        )


@dataclass(frozen=True)
class PublicInput:
    """Public records or weights that the method looked at freely.

    facts: None in what version 0.1 wrote, and in what goes on from there.
    """

    name: str
    provenance: str
    facts: InputFacts | None = None

    def to_json(self) -> dict[str, Any]:
        named = {"name": self.name, "provenance": self.provenance}
        return named if self.facts is None else {**named, **self.facts.to_json()}

    @staticmethod
    def read(fields: Fields) -> PublicInput:
        name, provenance = fields.text("name"), fields.text("provenance")
        facts = InputFacts.read(fields) if fields.has("use") else None
        fields.end()
        return PublicInput(name, provenance, facts)


@dataclass(frozen=True)
class MethodFacts:
    """Which method ran, with which settings, and how it departs from its paper."""

    name: str
    paper: str
    config: Mapping[str, Any] = field(default_factory=dict)
    changed_for_soundness: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "paper": self.paper,
            "config": dict(self.config),
            "changed_for_soundness": list(self.changed_for_soundness),
        }

    @staticmethod
    def read(fields: Fields) -> MethodFacts:
        found = MethodFacts(
            fields.text("name"),
            fields.text("paper"),
            fields.mapping("config"),
            fields.texts("changed_for_soundness"),
        )
        fields.end()
        return found


@dataclass(frozen=True)
class RunFacts:
    """What a run declares before it begins.

    count: the declared number of units of all private parts (n0).
    unit: the column that names the unit, or None when every image is its own.
    parts: declared number of units per private part.
    assumed_public: beyond the count, the names and the image size, which every claim lists.
    audited: canaries were planted among the records, so the run is not for release.
    limit: a smoke run on about so many records, so it is not for release; the ledger says
        nothing of it where there is no limit.
    """

    method: MethodFacts
    count: int
    unit: str | None = None
    parts: Mapping[str, int] = field(default_factory=dict)
    split: str = "none"
    assumed_public: tuple[str, ...] = ()
    public_inputs: tuple[PublicInput, ...] = ()
    randomness: Randomness = field(default_factory=Randomness)
    audited: bool = False
    limit: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The `run` object of a ledger's plan entry."""
        method = self.method.to_json()
        return {
            "method": method["name"],
            "paper": method["paper"],
            "config": method["config"],
            "changed_for_soundness": method["changed_for_soundness"],
            "count": self.count,
            "unit": self.unit,
            "parts": dict(self.parts),
            "split": self.split,
            "assumed_public": list(self.assumed_public),
            "public_inputs": [p.to_json() for p in self.public_inputs],
            "randomness": self.randomness.to_json(),
            "audited": self.audited,
            **({} if self.limit is None else {"limit": self.limit}),
        }

    def as_version_0_1(self) -> RunFacts:
        """The same facts as far as version 0.1 stated them."""
        inputs = tuple(PublicInput(one.name, one.provenance) for one in self.public_inputs)
        return replace(self, public_inputs=inputs)

    @staticmethod
    def from_json(data: Any) -> RunFacts:
        """Read the facts back; a field that is not known here is refused, not skipped."""
        fields = Fields(data, "ledger.jsonl", "run.")
        found = RunFacts(
            method=MethodFacts(
                fields.text("method"),
                fields.text("paper"),
                fields.mapping("config"),
                fields.texts("changed_for_soundness"),
            ),
            count=fields.whole("count"),
            unit=fields.optional_text("unit"),
            parts=fields.mapping("parts"),
            split=fields.one_of("split", SPLITS),
            assumed_public=fields.texts("assumed_public"),
            public_inputs=tuple(PublicInput.read(p) for p in fields.parts("public_inputs")),
            randomness=Randomness.read(fields.part("randomness")),
            audited=fields.flag("audited"),
            limit=fields.whole("limit") if "limit" in data else None,
        )
        fields.end()
        return found
