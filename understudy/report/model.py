"""What a report is made of: public facts in one type, the owner's figures in another.

`ReportData` has no field in which a figure measured on real data could travel, and
`render_public` takes nothing else. What only the owner may see is an `OwnerData`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from understudy.data.records import Records
from understudy.errors import UserError

CLAIM_FORMATS = ("understudy-claim/1", "understudy-claim/2")
METRICS_FORMAT = "understudy-metrics/1"
_CLAIM_NEEDS = ("statement", "kind", "epsilon", "unit", "relation", "method", "spending")


@dataclass(frozen=True)
class ReportData:
    """Everything that both reports show; all of it is, or will be, public.

    claim: the content of `claim.json`.
    ledger: the entries of the released `ledger.jsonl` as plain objects, in order.
    samples: synthetic records, a few of each class; None shows no pictures. The caller
        decides, by the terms of what they were learnt from.
    settings: the resolved settings as they may be shared (no paths of the owner's).
    digest: the digest of the release, once there is one.
    """

    title: str
    claim: Mapping[str, Any]
    ledger: Sequence[Mapping[str, Any]] = ()
    samples: Records | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None

    def __post_init__(self) -> None:
        if self.claim.get("format") not in CLAIM_FORMATS:
            raise UserError(
                f"claim has format {self.claim.get('format')!r}; a report needs "
                f"{' or '.join(CLAIM_FORMATS)}."
            )
        missing = [key for key in _CLAIM_NEEDS if key not in self.claim]
        if missing:
            raise UserError(f"claim lacks {', '.join(missing)}; a report cannot state it.")
        _refuse_units(self.samples)


def _refuse_units(samples: Records | None) -> None:
    if samples is not None and samples.units is not None:
        raise UserError(
            "samples name the units they belong to; synthetic records have none, "
            "so these look like real ones."
        )


@dataclass(frozen=True)
class Curve:
    """One measured series, such as a loss by step. Computed on private records."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    x_label: str = "step"
    y_label: str = ""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise UserError(
                f"curve {self.name!r} has {len(self.x)} x values and {len(self.y)} y values; "
                "they must be as many."
            )


@dataclass(frozen=True)
class OwnerData:
    """What was computed from real data, and what tells of the owner's machine.

    own_ledger: the entries of the owner's own ledger, which tells where work stopped or was void.
    metrics: the content of `metrics.json`, or None when nothing was evaluated.
    counts: realised numbers of records by name (parts, duplicates dropped).
    warnings: what the owner must look at before a release, such as near copies.
    own_samples: synthetic records that only the owner may see; None shows what others see.
    """

    own_ledger: Sequence[Mapping[str, Any]] = ()
    metrics: Mapping[str, Any] | None = None
    curves: Sequence[Curve] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    hardware: Mapping[str, str] = field(default_factory=dict)
    own_samples: Records | None = None

    def __post_init__(self) -> None:
        _refuse_units(self.own_samples)
        if self.metrics is not None and self.metrics.get("format") != METRICS_FORMAT:
            raise UserError(
                f"metrics has format {self.metrics.get('format')!r}; "
                f"a report needs {METRICS_FORMAT!r}."
            )
