"""Compiled norms and weighted sums of per-example gradients, checked against eager ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from understudy.errors import PrivacyError
from understudy.nets.compiling import compiled
from understudy.privacy.sums.gradient_pieces import Pieces, PieceSums

_TOLERANCE = 1e-7
"""Relative difference of norms. Both sums add in float64 and differ by far less."""


class FusedSums(PieceSums):
    """`PieceSums`, compiled: each piece is read once and never copied."""

    def __init__(self, through: str = "inductor") -> None:
        self._all_squares: Any = compiled(_all_squares, backend=through)
        self._all_weighted: Any = compiled(_all_weighted, backend=through)

    # Without autograd, or torch compiles them once more for callers that have it on.
    @torch.no_grad()
    def squares(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        found: torch.Tensor = self._all_squares(list(values))
        return found

    @torch.no_grad()
    def add_weighted(
        self, total: torch.Tensor, values: Sequence[torch.Tensor], factors: torch.Tensor
    ) -> None:
        total.add_(self._all_weighted(list(values), factors))


def _all_squares(values: list[torch.Tensor]) -> torch.Tensor:
    each = [piece.double().square().sum(dim=tuple(range(1, piece.ndim))) for piece in values]
    return torch.stack(each).sum(dim=0)


def _all_weighted(values: list[torch.Tensor], factors: torch.Tensor) -> torch.Tensor:
    return torch.cat([_weighted(piece, factors).reshape(-1) for piece in values])


def _weighted(piece: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    weights = factors.double().reshape(-1, *(1 for _ in piece.shape[1:]))
    return torch.where(weights == 0, 0.0, piece.double() * weights).sum(dim=0)


@torch.no_grad()
def check_sums(sums: PieceSums, vectors: Pieces) -> None:
    """Refuse sums whose row norms or weighted sum are not those of `PieceSums`.

    `vectors` come from random records and have the shape that private ones will have. This
    overwrites the first row with nan, and gives it and the last row, like padding, the weight zero.
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
