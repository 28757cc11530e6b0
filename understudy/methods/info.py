"""What a method says of itself: words for readers, and what a run must give it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from understudy.errors import UserError, did_you_mean
from understudy.privacy.plan.mechanisms.mechanism import Mechanism

TRAIN = "train"
"""The part that a method has unless it names others."""

CLAIM_KINDS = ("central", "local", "empirical")

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


@dataclass(frozen=True)
class PublicRecords:
    """Public records that a method looks at, under the name that `--public NAME=DATA` gives."""

    name: str
    summary: str
    needed: bool = True


@dataclass(frozen=True)
class PublicWeights:
    """Public weights that a method starts from, as `--weights NAME=FILE` gives them.

    default: an entry of the catalog of weights, taken where the user names none.
    """

    name: str
    summary: str
    needed: bool = True
    default: str | None = None


@dataclass(frozen=True)
class MethodInfo:
    """What tables, cards and `understudy methods` say about a method, and what it asks of a run.

    family: a word for readers; nothing depends on it.
    parts: the share of the private units that falls into each part; the shares add up to 1.
    maps: the part whose records leave one by one through the `RecordMap` that `fit` returns.
    public: the public records and weights that it takes, by name.
    hides: whether it hides attributes (`--hide`) and keeps named ones (`--keep`).
    needs: packages beside torch, numpy and safetensors that it imports to fit and to sample.
    """

    name: str
    summary: str
    paper: str
    family: str
    claim: str = "central"
    parts: Mapping[str, float] = field(default_factory=lambda: {TRAIN: 1.0})
    maps: str | None = None
    public: tuple[PublicRecords | PublicWeights, ...] = ()
    hides: bool = False
    needs: tuple[str, ...] = ()
    mechanism: str = ""
    changed_for_soundness: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.claim not in CLAIM_KINDS:
            raise UserError(
                f"{self.name}: claim must be one of {', '.join(CLAIM_KINDS)}, not {self.claim!r}."
            )
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))
        _check_shares(self.name, self.parts)
        names = [entry.name for entry in self.public]
        for name in (*self.parts, *names):
            _check_name(self.name, name)
        if len(set(names)) != len(names):
            raise UserError(f"{self.name}: two public inputs share a name; names must differ.")
        if self.maps is not None and self.maps not in self.parts:
            raise UserError(
                f"{self.name}: maps names no part {self.maps!r}; "
                f"{did_you_mean(self.maps, self.parts)}"
            )

    @property
    def public_records(self) -> tuple[PublicRecords, ...]:
        return tuple(entry for entry in self.public if isinstance(entry, PublicRecords))

    @property
    def public_weights(self) -> tuple[PublicWeights, ...]:
        return tuple(entry for entry in self.public if isinstance(entry, PublicWeights))

    @property
    def first_part(self) -> str:
        return next(iter(self.parts))

    def declared_counts(self, count: int) -> dict[str, int]:
        """The declared number of units of each part, when so many are declared in all.

        Guarantee: a function of declared numbers alone. The last part takes what rounding
        leaves, so that the counts add up.
        """
        bounds, upto = [0], 0.0
        for share in self.parts.values():
            upto += share
            bounds.append(math.floor(count * upto + 1e-9))
        bounds[-1] = count
        counts = {n: b - a for n, a, b in zip(self.parts, bounds, bounds[1:], strict=False)}
        empty = [name for name, own in counts.items() if own < 1]
        if empty:
            raise UserError(
                f"a count of {count} leaves part {empty[0]!r} of {self.name} without a unit "
                f"(its share is {self.parts[empty[0]]:g}); give more data or a larger --count."
            )
        return counts

    def check_planned(self, mechanisms: Iterable[Mechanism]) -> None:
        """Refuse a plan that uses a part which this method does not have."""
        for mechanism in mechanisms:
            if mechanism.part not in self.parts:
                raise UserError(
                    f"{self.name} plans {mechanism.name!r} on part {mechanism.part!r}, which its "
                    f"info.parts do not name; {did_you_mean(mechanism.part, self.parts)}"
                )


def _check_shares(method: str, parts: Mapping[str, float]) -> None:
    total = math.fsum(parts.values())
    if any(not 0 < share <= 1 for share in parts.values()) or not math.isclose(
        total, 1.0, abs_tol=1e-9
    ):
        raise UserError(
            f"{method}: the shares of its parts must be positive and add up to 1, "
            f"not {dict(parts)}."
        )


def _check_name(method: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{method}: {name!r} cannot name a part or a public input; names are lower-case "
            "words, digits, hyphens and underscores."
        )
