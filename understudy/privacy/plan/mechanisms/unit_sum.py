"""Sums over units: all that the door must know to clip, add noise and charge for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.privacy.plan.events import Event, Gaussian
from understudy.privacy.plan.mechanisms.checks import check_positive
from understudy.privacy.plan.mechanisms.mechanism import Mechanism

if TYPE_CHECKING:
    import torch


class UnitSum(Mechanism):
    """A noisy release of a function of the sum over units of one vector each.

    Guarantee: the door clips each unit's vector to L2 norm `unit_norm`, sums, applies `shaped`,
    and adds noise of standard deviation `sigma * sensitivity` to every coordinate; a mechanism
    adds none of its own. Adding or removing one unit moves the sum by at most `unit_norm`, and
    so what is released by at most `sensitivity`, if `multiple` is a Lipschitz constant of
    `shaped` in L2: that much is declared, and an audit's probe measures it. Event: one Gaussian
    with multiplier `sigma` a use.
    """

    probe = "understudy.audit.probes:unit_sum_cases"

    sigma: float

    @property
    def unit_norm(self) -> float:
        """The L2 norm to which the door clips each unit's vector."""
        raise NotImplementedError

    @property
    def multiple(self) -> float:
        """How far one unit moves what is released, in multiples of `unit_norm`."""
        return 1.0

    @property
    def width(self) -> int | None:
        """How many numbers each vector must have; None for any."""
        return None

    @property
    def is_plain(self) -> bool:
        """Whether noise is added to the sum itself."""
        return type(self).shaped is UnitSum.shaped

    @property
    def sensitivity(self) -> float:
        return self.multiple * self.unit_norm

    @property
    def noise_multiplier(self) -> float | None:
        return self.sigma

    def events(self, uses: int) -> tuple[Event, ...]:
        return (Gaussian(self.sigma, uses),) if uses else ()

    def check(self) -> None:
        check_positive(self, "sigma", "unit_norm", "multiple")

    def shaped(self, total: torch.Tensor) -> torch.Tensor:
        """What noise is added to: a fixed linear map of the exact sum, by default the sum."""
        return total

    def finished(self, noisy: torch.Tensor) -> torch.Tensor:
        """What is handed out: a fixed function of the noisy vector, which costs nothing."""
        return noisy
