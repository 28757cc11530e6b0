"""What can happen to private records, described apart from what it costs.

An event is a frozen value that can be written to a ledger and read back. The
accountants (`understudy.privacy.accounting.accountants`) give it a price; an event they do not
know is an error, never a zero. The meaning of a published event never changes.

Every `sigma` is a *multiplier*: noise standard deviation divided by the L2 sensitivity
of what is released, under the relation that the event names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from understudy.errors import UserError


@dataclass(frozen=True)
class Gaussian:
    """`count` Gaussian releases; sensitivity under adding or removing one unit."""

    kind: ClassVar[str] = "gaussian"
    sigma: float
    count: int = 1


@dataclass(frozen=True)
class DiscreteGaussian:
    """`count` releases of integer vectors with discrete Gaussian noise on every coordinate.

    `sigma` is the noise's scale (the root of sigma^2 in exp(-y^2 / (2 sigma^2))) over the
    L2 sensitivity, both in steps of the grid, under adding or removing one unit. Charged
    as zero-concentrated: 1 / (2 sigma^2) for each release.
    """

    kind: ClassVar[str] = "discrete-gaussian"
    sigma: float
    count: int = 1


@dataclass(frozen=True)
class PoissonGaussian:
    """`count` Gaussian releases, each on a fresh Poisson sample of the units.

    Every unit takes part in each release independently with probability `rate`;
    sensitivity under adding or removing one unit.
    """

    kind: ClassVar[str] = "poisson-gaussian"
    sigma: float
    rate: float
    count: int = 1


@dataclass(frozen=True)
class OneOfShards:
    """`count` Gaussian releases, each on one of `shards` disjoint shards, chosen uniformly.

    Sensitivity under replacing one shard (adding or removing one unit replaces the
    shard it falls in). Charged as sampling without replacement under replace-one.
    """

    kind: ClassVar[str] = "one-of-shards"
    sigma: float
    shards: int
    count: int = 1


@dataclass(frozen=True)
class LocalGaussian:
    """Every record leaves with its own Gaussian noise; replace-one, per record.

    Priced alone by the local claim; never composed with central events.
    """

    kind: ClassVar[str] = "local-gaussian"
    sigma: float
    count: int = 1


@dataclass(frozen=True)
class RandomisedResponse:
    """`count` labels of every record leave by randomised response; replace-one, per record.

    Each is `epsilon`-private with delta 0. Priced by the local claim; never composed with
    central events.
    """

    kind: ClassVar[str] = "randomised-response"
    epsilon: float
    count: int = 1


@dataclass(frozen=True)
class NonPrivate:
    """Records left without protection; no finite epsilon covers it."""

    kind: ClassVar[str] = "non-private"
    reason: str


LocalEvent = LocalGaussian | RandomisedResponse
Event = Gaussian | DiscreteGaussian | PoissonGaussian | OneOfShards | LocalEvent | NonPrivate

_KINDS: Mapping[str, type[Any]] = {
    e.kind: e
    for e in (
        Gaussian,
        DiscreteGaussian,
        PoissonGaussian,
        OneOfShards,
        LocalGaussian,
        RandomisedResponse,
        NonPrivate,
    )
}


def event_to_json(event: Event) -> dict[str, Any]:
    return {"kind": event.kind, **asdict(event)}


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Read an event back; an unknown kind or field is refused by name."""
    fields = dict(data)
    kind = fields.pop("kind", None)
    if kind not in _KINDS:
        raise UserError(f"unknown event kind {kind!r}; this version knows {', '.join(_KINDS)}.")
    try:
        event: Event = _KINDS[kind](**fields)
    except TypeError as error:
        raise UserError(f"event {kind!r} has wrong fields: {error}.") from error
    return event
