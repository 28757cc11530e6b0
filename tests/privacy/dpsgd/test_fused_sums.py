"""Compiled sums are held against plain ones: what differs by more than rounding is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from understudy.errors import PrivacyError
from understudy.privacy.dpsgd.fused_sums import FusedSums, check_sums
from understudy.privacy.sums.gradient_pieces import Pieces, PieceSums


def some_pieces(rows: int = 6) -> Pieces:
    chance = torch.Generator().manual_seed(0)
    wide = torch.randn(rows, 3, 40, generator=chance).to(torch.bfloat16)
    return Pieces((wide, torch.randn(rows, 5, generator=chance)))


class Squares(PieceSums):
    """Another norm: of one piece alone, or a little shorter."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def squares(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        found = super().squares(values[:1] if self.kind == "first piece" else values)
        if self.kind == "finite":
            return found.nan_to_num(0.0)
        return found * (1 - 1e-5) if self.kind == "shorter" else found


class Weighted(PieceSums):
    """Another sum: not finite rows, or the last one, count."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def add_weighted(
        self, total: torch.Tensor, values: Sequence[torch.Tensor], factors: torch.Tensor
    ) -> None:
        if self.kind == "padding":
            factors = torch.cat([factors[:-1], factors[-2:-1]])
        super().add_weighted(total, values, factors)
        if self.kind == "not finite":
            total += values[1][0].sum()


@pytest.mark.parametrize("rows", [1, 2, 6])
def test_the_sums_that_are_used_pass(rows: int) -> None:
    check_sums(PieceSums(), some_pieces(rows))
    check_sums(FusedSums("eager"), some_pieces(rows))


@pytest.mark.parametrize(
    "wrong",
    [
        *(Squares(kind) for kind in ("first piece", "shorter", "finite")),
        *(Weighted(kind) for kind in ("padding", "not finite")),
    ],
    ids=lambda wrong: wrong.kind,
)
def test_others_are_refused(wrong: PieceSums) -> None:
    with pytest.raises(PrivacyError, match="not those of their rows"):
        check_sums(wrong, some_pieces())
