"""Whether noise is exact or floating point: what a plan can have, and what it gets."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.errors import UserError
from understudy.privacy.plan.calibration import NOMINAL_SIGMA
from understudy.privacy.plan.mechanisms import EXACT, FLOAT, Mechanism
from understudy.privacy.plan.plan import Spend


def spend_with(spend: Spend, noise: str) -> Spend:
    """`spend` with every one-shot release in this arithmetic; other mechanisms as they are."""

    def planned(sigma: float) -> Sequence[Mechanism]:
        return tuple(m.with_arithmetic(noise) for m in spend(sigma))

    return planned


def choose_noise(spend: Spend, asked: str | None, method: str) -> str:
    """The arithmetic of a run's noise: as asked, by default exact wherever that can be.

    Exact noise is for plans whose every noisy release is one-shot (a sum or a histogram
    over all units); anything else under "exact" would be a claim that is not true.
    """
    planned = spend(NOMINAL_SIGMA)
    noisy = [m for m in planned if m.is_private]
    others = sorted({m.kind for m in noisy if not m.can_be_exact})
    possible = bool(noisy) and not others
    if asked == EXACT and not possible:
        raise UserError(_why_not(method, others))
    return asked or (EXACT if possible else FLOAT)


def noise_of(mechanisms: Sequence[Mechanism]) -> str:
    """What a claim may say of a plan: "exact" only if every noisy release in it is."""
    exact = [m.arithmetic == EXACT for m in mechanisms if m.is_private]
    return EXACT if exact and all(exact) else FLOAT


def _why_not(method: str, others: Sequence[str]) -> str:
    if not others:
        return f"--noise exact: {method} adds no noise; leave --noise out."
    return (
        f"--noise exact is for one-shot releases (sums and histograms over all units); {method} "
        f"uses {', '.join(others)}, whose values are not on an integer grid; use --noise float."
    )
