"""What can happen to private records, described apart from what it costs.

An event is a frozen value, which follows from a mechanism of the plan. The
accountants (`understudy.privacy.accounting.accountants`) give it a price; an event they do not
know is an error, never a zero. The meaning of a published event never changes.

Every `sigma` is a *multiplier*: noise standard deviation divided by the L2 sensitivity
of what is released, under the relation that the event names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


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
