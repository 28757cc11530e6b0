"""Evidence: the file that a run or a measurement leaves behind, with all it takes to repeat it.

Format 3 (`evidence_schema.json`): checked before it is written, its epsilon recomputed from its
own mechanisms, sealed, listed in the index of its folder, never overwritten. Format 2, whose
claims hold no mechanisms, is still read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from understudy.bench.evidence.index import EvidenceIndex, NewFile
from understudy.bench.evidence.json_schema import check, evidence_schema
from understudy.bench.evidence.provenance import Provenance
from understudy.bench.evidence.recompute import claim_problem
from understudy.bench.evidence.seal import digest, plain_json, seal_of, sealed_bytes
from understudy.bench.evidence.shareable import hide_places
from understudy.errors import UserError
from understudy.release.leaks import machine_paths

FORMAT = "understudy-evidence/3"
READABLE = ("understudy-evidence/2", FORMAT)
_NOT_OF_THE_METHOD = frozenset({"seed", "device", "protocol", "preset", "changes", "limit"})

__all__ = [
    "FORMAT",
    "READABLE",
    "PhaseEvidence",
    "Provenance",
    "RunEvidence",
    "write_all_evidence",
    "write_measurement",
    "write_run_evidence",
]


@dataclass(frozen=True)
class PhaseEvidence:
    """How long one phase took, on which machine; phases may come from different ones."""

    seconds: float
    peak_gigabytes: float | None
    provenance: Provenance

    def to_json(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "peak_gigabytes": self.peak_gigabytes,
            **self.provenance.to_json(),
        }


@dataclass(frozen=True)
class RunEvidence:
    """One run of a suite, finished or failed.

    provenance: of the process that writes this; each phase has its own.
    config: method, dataset (`shareable.dataset_name` of it), epsilon (None: empirical), delta,
        seed, `settings` (the method's resolved configuration), and the rest of the cell.
    keys: `fit`, `sample` and `evaluate`, 64 hexadecimal digits each.
    public, data_hash: whether the dataset is declared public, and only then its content hash.
    claim: kind, epsilon, delta, accountant, relation, the plan's `mechanisms` in full, tuning,
        ledger head and length; None in a failed run, whose claim may be what failed.
    metrics: what `metrics.json` holds; None in a failed run.
    reason: None, or why it failed. For data that is not public it is the error's class alone.
    limit: the `--limit` of a smoke run; the protocol's stamp must then say so too.
    """

    command: str
    provenance: Provenance
    config: Mapping[str, Any]
    keys: Mapping[str, str]
    public: bool
    data_hash: str | None
    phases: Mapping[str, PhaseEvidence] = field(default_factory=dict)
    claim: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] | None = None
    suite: str | None = None
    status: Literal["ok", "failed"] = "ok"
    reason: str | None = None
    limit: int | None = None

    def name(self, taken: AbstractSet[str]) -> str:
        """The file's name; failures of one cell are counted on."""
        config = self.config
        epsilon = "none" if config["epsilon"] is None else f"{config['epsilon']:g}"
        words = (config["dataset"], config["method"], f"epsilon{epsilon}", f"seed{config['seed']}")
        name = f"{'-'.join(_slug(str(word)) for word in words)}-{self.keys['evaluate'][:8]}"
        if self.status == "ok":
            return name
        tries = (f"{name}-failed-{n}" for n in range(1, len(taken) + 2))
        return next(name for name in tries if name not in taken)

    def content(self) -> dict[str, Any]:
        """The evidence as JSON, without name and seal."""
        peaks = [p.peak_gigabytes for p in self.phases.values() if p.peak_gigabytes is not None]
        return {
            "format": FORMAT,
            "kind": "run",
            "audience": "public" if self.public else "owner",
            "command": hide_places(self.command),
            **self.provenance.to_json(),
            "seeds": [self.config.get("seed")],
            "seconds": {name: phase.seconds for name, phase in self.phases.items()},
            "peak_gigabytes": max(peaks, default=None),
            "suite": self.suite,
            "status": self.status,
            "reason": None if self.reason is None else hide_places(self.reason),
            "limit": self.limit,
            "config": dict(self.config),
            "keys": dict(self.keys),
            "data": {
                "name": self.config.get("dataset"),
                "public": self.public,
                "hash": self.data_hash,
            },
            "phases": {name: phase.to_json() for name, phase in self.phases.items()},
            "digests": self._digests(),
            "claim": None if self.claim is None else _finite_claim(self.claim),
            "metrics": None if self.metrics is None else _without_places(self.metrics),
        }

    def _digests(self) -> dict[str, str | None]:
        """Equal `configuration`: runs that differ in nothing but the seed and the machine.
        Equal `protocol`: figures that may stand in one column.
        """
        same = {name: held for name, held in self.config.items() if name not in _NOT_OF_THE_METHOD}
        return {
            "configuration": digest(plain_json({**same, "limit": self.limit})),
            "protocol": None if self.metrics is None else digest(self.metrics["protocol"]),
        }


def write_run_evidence(folder: Path, evidence: RunEvidence) -> Path:
    """Write one run's file and its line in the index; an existing file is never overwritten."""
    return write_all_evidence(folder, [evidence])[0]


def write_all_evidence(folder: Path, evidences: Sequence[RunEvidence]) -> tuple[Path, ...]:
    """Write many at once, all or none; the index is locked and read once."""
    contents = [_checked(evidence.content(), "run") for evidence in evidences]

    def fill(taken: frozenset[str]) -> list[NewFile]:
        names: list[str] = []
        known = set(taken)
        for evidence in evidences:
            names.append(evidence.name(known))
            known.add(names[-1])
        return [
            NewFile(name, "run", sealed_bytes({**content, "name": name}))
            for name, content in zip(names, contents, strict=True)
        ]

    return EvidenceIndex(folder).add(fill)


def write_measurement(
    folder: Path,
    name: str,
    *,
    provenance: Provenance,
    command: str,
    config: Mapping[str, Any],
    seeds: Sequence[int],
    seconds: Mapping[str, float],
    peak_gigabytes: float | None,
    result: Mapping[str, Any],
    audience: Literal["public", "owner"] = "public",
) -> Path:
    """Write what was measured apart from any suite: how long something takes, say."""
    content = _checked(
        {
            "format": FORMAT,
            "kind": "measurement",
            "audience": audience,
            "command": hide_places(command),
            **provenance.to_json(),
            "seeds": list(seeds),
            "seconds": dict(seconds),
            "peak_gigabytes": peak_gigabytes,
            "config": dict(config),
            "result": dict(result),
        },
        name,
    )
    return EvidenceIndex(folder).add(
        lambda _: [NewFile(name, "measurement", sealed_bytes(content))]
    )[0]


def check_content(content: Mapping[str, Any], where: str) -> None:
    """Refuse what is not evidence of its format, naming the first field that is wrong."""
    check(content, evidence_schema(), where)
    places = machine_paths(content)
    if places:
        raise UserError(f"{where}: {places[0]!r} is a place on the machine; give a name instead.")


def _checked(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The content as plain JSON with a name, which the caller may still change.

    Guarantee: the claim's epsilon is what its own mechanisms cost, so an index that this
    package wrote lists no file that says otherwise.
    """
    plain: dict[str, Any] = plain_json({**content, "name": name})
    check_content({**plain, "seal": seal_of(plain)}, f"evidence {name}")
    problem = claim_problem(plain)
    if problem is not None:
        raise UserError(f"evidence {name}: {problem}")
    return plain


def _finite_claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    """No bound at all is null here, so that the field holds numbers only."""
    epsilon = claim.get("epsilon")
    unbounded = epsilon == "infinity" or (isinstance(epsilon, float) and math.isinf(epsilon))
    return {**claim, "epsilon": None if unbounded else epsilon}


def _without_places(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The reasons of failed rows may name files of the machine; nothing else does."""
    rows = [
        {**row, "reason": hide_places(row["reason"])} if row.get("reason") else row
        for row in metrics.get("rows", ())
    ]
    return {**metrics, "rows": rows}


def _slug(word: str) -> str:
    """A word for a file name."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", word).strip("-.") or "unnamed"
