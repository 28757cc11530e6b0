"""What a plan is made of: each planned use of private records, whole.

A mechanism holds clipping, sampling, noise and count together, so that they cannot
disagree, and says which events it costs. Speed settings live elsewhere (`Speed`) and
can change none of this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from understudy.errors import UserError
from understudy.privacy.plan.events import (
    DiscreteGaussian,
    Event,
    Gaussian,
    LocalGaussian,
    NonPrivate,
    PoissonGaussian,
    RandomisedResponse,
)

EXACT = "exact"
FLOAT = "float"
NOISES = (EXACT, FLOAT)
"""The arithmetic that noise is drawn and added in: integers on a grid, or floating point."""

LEAST_EXACT_SIGMA = 2.0**-6
MOST_EXACT_SIGMA = 2.0**20
"""Between them a sensitivity has 16 to 2^30 steps of the grid, whose squares fit integers."""


class _UsedOnce:
    """A mechanism with a single use."""

    @property
    def uses(self) -> int:
        return 1


class _Gaussian:
    """A mechanism each of whose uses is one Gaussian release."""

    sigma: float

    def events(self, uses: int) -> tuple[Event, ...]:
        return (Gaussian(self.sigma, uses),) if uses else ()


class _OneShot(_UsedOnce):
    """A single release of a sum over units, with noise of either arithmetic."""

    sigma: float
    noise: str

    def events(self, uses: int) -> tuple[Event, ...]:
        if not uses:
            return ()
        exact = self.noise == EXACT
        return (DiscreteGaussian(self.sigma, uses) if exact else Gaussian(self.sigma, uses),)


@dataclass(frozen=True)
class NoisySum(_OneShot):
    """One Gaussian release of the sum of per-unit vectors.

    Guarantee: each unit's vector has L2 norm at most `clip`, so adding or removing one
    unit moves the sum by at most `clip`; noise of standard deviation `sigma * clip` is
    added to every coordinate. Event: one Gaussian with multiplier `sigma`.

    With `noise` "exact" the vectors are whole numbers of steps, bounded after they were
    rounded, and so is the noise: one discrete Gaussian with multiplier at least `sigma`,
    charged as `sigma` (see `understudy.privacy.sums.grid`).
    """

    kind: ClassVar[str] = "noisy-sum"
    name: str
    clip: float
    sigma: float
    part: str = "train"
    noise: str = FLOAT


@dataclass(frozen=True)
class NoisyHistogram(_OneShot):
    """One Gaussian release of counts over `bins` bins.

    Guarantee: a unit's contribution, summed over its records, has L2 norm at most 1.
    Event: one Gaussian with multiplier `sigma`, noise standard deviation `sigma`. With
    `noise` "exact" as in `NoisySum`: one discrete Gaussian.
    """

    kind: ClassVar[str] = "noisy-histogram"
    name: str
    bins: int
    sigma: float
    part: str = "train"
    noise: str = FLOAT


@dataclass(frozen=True)
class DPSGD:
    """`steps` noisy gradient sums, each on a fresh Poisson sample of the units.

    Guarantee: every unit joins each step independently with probability `rate`; its
    whole gradient (summed over its records, averaged over `multiplicity` draws, over
    all models given) is clipped once to L2 norm `clip`; noise of standard deviation
    `sigma * clip` is added to the sum. Adding or removing one unit moves the sum by at
    most `clip`. Event: `steps` Poisson-sampled Gaussians with multiplier `sigma`.
    """

    kind: ClassVar[str] = "dp-sgd"
    name: str
    steps: int
    rate: float
    clip: float
    sigma: float
    multiplicity: int = 1
    part: str = "train"

    @property
    def uses(self) -> int:
        return self.steps

    def events(self, uses: int) -> tuple[Event, ...]:
        return (PoissonGaussian(self.sigma, self.rate, uses),) if uses else ()


class _Queried(_Gaussian):
    """`queries` uses, each a Gaussian release."""

    queries: int

    @property
    def uses(self) -> int:
        return self.queries


@dataclass(frozen=True)
class EnsembleVotes(_Queried):
    """`queries` noisy vote counts of models trained on disjoint shards.

    Guarantee: adding or removing one unit changes one shard's model, hence one vote per
    query: the counts move by at most sqrt(2). Noise of standard deviation
    `sigma * sqrt(2)`. Event: `queries` Gaussians with multiplier `sigma`; no discount
    for the number of shards.
    """

    kind: ClassVar[str] = "ensemble-votes"
    name: str
    shards: int
    queries: int
    sigma: float
    part: str = "train"


@dataclass(frozen=True)
class EnsembleGradients(_Queried):
    """`queries` noisy sums of gradients that shard models send back to an input.

    Guarantee: each shard's whole gradient is clipped to L2 norm `clip`; adding or
    removing one unit *replaces* one shard's gradient, so the sum moves by at most
    `2 * clip`. Noise of standard deviation `sigma * 2 * clip`. Event: `queries`
    Gaussians with multiplier `sigma`.
    """

    kind: ClassVar[str] = "ensemble-gradients"
    name: str
    shards: int
    queries: int
    clip: float
    sigma: float
    part: str = "train"


@dataclass(frozen=True)
class LocalRelease(_UsedOnce):
    """Every record leaves once, clipped to L2 norm `radius`, with its own Gaussian noise.

    Guarantee, per record under replace-one: sensitivity `2 * radius`, noise of standard
    deviation `sigma * 2 * radius`. Event: one local Gaussian with multiplier `sigma`.
    """

    kind: ClassVar[str] = "local-release"
    name: str
    radius: float
    sigma: float
    part: str = "train"

    def events(self, uses: int) -> tuple[Event, ...]:
        return (LocalGaussian(self.sigma, uses),) if uses else ()


@dataclass(frozen=True)
class LocalLabels(_UsedOnce):
    """One label of every record leaves once, by randomised response with this `epsilon`.

    Guarantee, per record under replace-one: `epsilon`-private, delta 0. Event: one
    randomised response. A device sends labels so (`LocalChannel`); no door does.
    """

    kind: ClassVar[str] = "local-labels"
    name: str
    epsilon: float
    part: str = "train"

    def events(self, uses: int) -> tuple[Event, ...]:
        return (RandomisedResponse(self.epsilon, uses),) if uses else ()


@dataclass(frozen=True)
class Reveal(_UsedOnce):
    """Raw records leave the door. No guarantee; the claim is then empirical."""

    kind: ClassVar[str] = "reveal"
    name: str
    reason: str
    part: str = "train"

    def events(self, uses: int) -> tuple[Event, ...]:
        return (NonPrivate(self.reason),) if uses else ()


MOST_USES = 10**12
"""More of anything is a mistake, or a ledger made to keep whoever verifies it busy."""

Mechanism = (
    NoisySum
    | NoisyHistogram
    | DPSGD
    | EnsembleVotes
    | EnsembleGradients
    | LocalRelease
    | LocalLabels
    | Reveal
)

_KINDS: Mapping[str, type[Any]] = {
    m.kind: m
    for m in (
        NoisySum,
        NoisyHistogram,
        DPSGD,
        EnsembleVotes,
        EnsembleGradients,
        LocalRelease,
        LocalLabels,
        Reveal,
    )
}


def mechanism_to_json(mechanism: Mechanism) -> dict[str, Any]:
    return {"kind": mechanism.kind, **asdict(mechanism)}


def mechanism_from_json(data: Mapping[str, Any]) -> Mechanism:
    """Read a mechanism back and check its numbers; unknown kinds are refused by name."""
    fields = dict(data)
    kind = fields.pop("kind", None)
    if kind not in _KINDS:
        raise UserError(f"unknown mechanism {kind!r}; this version knows {', '.join(_KINDS)}.")
    try:
        mechanism: Mechanism = _KINDS[kind](**fields)
    except TypeError as error:
        raise UserError(f"mechanism {kind!r} has wrong fields: {error}.") from error
    check_mechanism(mechanism)
    return mechanism


def check_mechanism(mechanism: Mechanism) -> None:
    """Refuse numbers for which the stated guarantee would be void."""
    for field in ("sigma", "clip", "rate", "radius", "epsilon"):
        value = getattr(mechanism, field, 1.0)
        if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
            raise UserError(
                f"{field} of {mechanism.name!r} must be a positive number, not {value!r}."
            )
    if getattr(mechanism, "rate", 1.0) > 1.0:
        raise UserError(f"rate of {mechanism.name!r} must be at most 1.")
    for field in ("steps", "multiplicity", "bins", "shards", "queries"):
        value = getattr(mechanism, field, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UserError(
                f"{field} of {mechanism.name!r} must be a whole number above 0, not {value!r}."
            )
        if value > MOST_USES:
            raise UserError(f"{field} of {mechanism.name!r} must be at most {MOST_USES:.0e}.")
    if isinstance(mechanism, NoisySum | NoisyHistogram):
        _check_noise(mechanism)


def _check_noise(mechanism: NoisySum | NoisyHistogram) -> None:
    if mechanism.noise not in NOISES:
        raise UserError(
            f"noise of {mechanism.name!r} must be {' or '.join(NOISES)}, not {mechanism.noise!r}."
        )
    within = LEAST_EXACT_SIGMA <= mechanism.sigma <= MOST_EXACT_SIGMA
    if mechanism.noise == EXACT and not within:
        raise UserError(
            f"exact noise takes a sigma from {LEAST_EXACT_SIGMA:g} to {MOST_EXACT_SIGMA:g}; "
            f"{mechanism.name!r} has {mechanism.sigma:g}; use float noise, or another epsilon."
        )
