"""Mechanisms of many steps, which a method holds in a session and the ledger counts in blocks."""

from __future__ import annotations

from understudy.privacy.plan.mechanisms.checks import check_counts, check_positive
from understudy.privacy.plan.mechanisms.mechanism import Mechanism


class Stepwise(Mechanism):
    """`steps` uses, each a vector with Gaussian noise of `sigma * sensitivity`.

    Guarantee: what a step adds noise to moves by at most `sensitivity` in L2 where its event says
    that two datasets are neighbours; the door draws the noise, once a step.
    """

    is_session = True
    steps: int
    clip: float
    sigma: float

    @property
    def sensitivity(self) -> float:
        """How far neighbours are apart before noise."""
        raise NotImplementedError

    @property
    def uses(self) -> int:
        return self.steps

    def passes(self, count: int) -> float | None:
        """How many records a step is expected to read of so many declared ones, if it samples."""
        del count
        return None

    @property
    def noise_multiplier(self) -> float | None:
        return self.sigma

    def check(self) -> None:
        check_positive(self, "sigma", "clip")
        check_counts(self, "steps")
