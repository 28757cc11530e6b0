"""Sums over units that are released with noise of either arithmetic."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from understudy.errors import UserError
from understudy.privacy.plan.events import DiscreteGaussian, Event, Gaussian
from understudy.privacy.plan.mechanisms.checks import check_counts
from understudy.privacy.plan.mechanisms.mechanism import EXACT, NOISES, Mechanism
from understudy.privacy.plan.mechanisms.unit_sum import UnitSum

LEAST_EXACT_SIGMA = 2.0**-6
MOST_EXACT_SIGMA = 2.0**20
"""Between them a sensitivity has 16 to 2^30 steps of the grid, whose squares fit integers."""


class OneShot(UnitSum):
    """The plain sum over units, in floating point or on a grid of whole numbers.

    With `noise` "exact" the vectors are whole numbers of steps, bounded after they were rounded,
    and so is the noise: one discrete Gaussian with multiplier at least `sigma`, charged as `sigma`
    (see `understudy.privacy.sums.grid`). Each of the `releases` is one such sum, of whatever
    vectors the method asks for then, with noise of its own; all of them are charged.
    """

    can_be_exact = True
    noise: str
    releases: int

    @property
    def uses(self) -> int:
        return self.releases

    @property
    def arithmetic(self) -> str:
        return self.noise

    def events(self, uses: int) -> tuple[Event, ...]:
        if not uses:
            return ()
        exact = self.noise == EXACT
        return (DiscreteGaussian(self.sigma, uses) if exact else Gaussian(self.sigma, uses),)

    def check(self) -> None:
        super().check()
        check_counts(self, "releases")
        if self.noise not in NOISES:
            raise UserError(
                f"noise of {self.name!r} must be {' or '.join(NOISES)}, not {self.noise!r}."
            )
        if self.noise == EXACT and not (self.is_plain and self.multiple == 1):
            raise UserError(f"exact noise is for plain sums; {self.name!r} is a shaped one.")
        within = LEAST_EXACT_SIGMA <= self.sigma <= MOST_EXACT_SIGMA
        if self.noise == EXACT and not within:
            raise UserError(
                f"exact noise takes a sigma from {LEAST_EXACT_SIGMA:g} to {MOST_EXACT_SIGMA:g}; "
                f"{self.name!r} has {self.sigma:g}; use float noise, or another epsilon."
            )

    @property
    def times(self) -> str:
        """How often it leaves, in words."""
        return "once" if self.releases == 1 else f"{self.releases:,} times"

    def with_arithmetic(self, noise: str) -> Mechanism:
        return cast(Mechanism, replace(self, noise=noise))  # type: ignore[type-var]
