"""Compiled sums held against plain ones, before any private record meets them."""

from __future__ import annotations

import torch

from understudy.errors import PrivacyError
from understudy.privacy.sums.gradient_pieces import Pieces, PieceSums

_TOLERANCE = 1e-7
"""By norm. Both add in float64; the bound on what a record adds allows 1e-6."""


@torch.no_grad()
def check_sums(sums: PieceSums, vectors: Pieces) -> None:
    """Refuse sums that give other norms of rows, or another weighted sum, than `PieceSums`.

    `vectors` are of random records and of the very shape that private ones will have; the first
    row is overwritten by what is not finite, and it and the last, as padding does, count for
    nothing.
    """
    plain, values = PieceSums(), vectors.values
    for piece in values:
        piece[:1].fill_(float("nan"))
    factors = torch.linspace(0.5, 1.5, len(vectors), device=values[0].device)
    factors[0] = factors[-1] = 0.0
    found, wanted = (way.squares(values) for way in (sums, plain))
    totals = []
    for way in (sums, plain):
        total = torch.zeros(vectors.shape[1], dtype=torch.float64, device=factors.device)
        way.add_weighted(total, values, factors)
        totals.append(total)
    good = _close(found[1:], wanted[1:]) and _close(*totals) and not found[0].isfinite()
    if not good:
        raise PrivacyError("compiled sums of gradients are not those of their rows.")


def _close(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    return bool(((found - wanted).norm() <= _TOLERANCE * wanted.norm()).item())
