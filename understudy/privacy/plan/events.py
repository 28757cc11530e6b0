"""What can happen to private records, described apart from what it costs.

An event is a frozen value, which follows from a mechanism of the plan. The
accountants (`understudy.privacy.accounting.accountants`) give it a price; an event they do not
know is an error, never a zero. The meaning of a published event never changes.

Every `sigma` is a *multiplier*: noise standard deviation divided by the L2 sensitivity
of what is released, under the relation that the event names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, get_args

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
KNOWN_EVENTS: tuple[type[Event], ...] = get_args(Event)


def event_to_json(event: Event) -> dict[str, Any]:
    return {"kind": event.kind, **asdict(event)}


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Read an event back; one that is not known here, or has other fields, is refused."""
    known: dict[str, type[Event]] = {event.kind: event for event in KNOWN_EVENTS}
    values = dict(data)
    kind = values.pop("kind", None)
    if not isinstance(kind, str) or kind not in known:
        raise UserError(f"unknown event {kind!r}; this version knows {', '.join(known)}.")
    types = {field.name: field.type for field in fields(known[kind])}
    if set(values) != set(types) or not all(_fits(values[n], str(t)) for n, t in types.items()):
        raise UserError(f"event {kind!r} must have {', '.join(types)}, each a fitting value.")
    return known[kind](**values)


def _fits(value: object, written: str) -> bool:
    if written == "str":
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and (written == "float" or isinstance(value, int))
