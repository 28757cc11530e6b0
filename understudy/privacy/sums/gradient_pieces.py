"""Per-record vectors in pieces, as gradients come layer by layer, and sums over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from understudy.privacy.dpsgd.compiling import compiled


@dataclass(frozen=True)
class Pieces:
    """Vectors given in pieces [rows, ...] of any floating type: side by side they are one
    vector a row. Saves a copy, and holds low precision as it is."""

    values: tuple[torch.Tensor, ...]

    def __len__(self) -> int:
        return len(self.values[0])

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.cat([piece[row].reshape(-1).float() for piece in self.values])

    @property
    def widths(self) -> list[int]:
        return [piece[0].numel() for piece in self.values]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), sum(self.widths)

    def dense(self) -> torch.Tensor:
        """[rows, width] in float32."""
        full = self.values[0].new_empty(self.shape, dtype=torch.float32)
        for place, piece in zip(torch.split(full, self.widths, dim=1), self.values, strict=True):
            place.copy_(piece.reshape(len(piece), -1))
        return full


class PieceSums:
    """Norms of rows and weighted sums over rows, in float64 whatever the values are in.

    A few rows at a time are copied to float64, where they lie together: torch reduces in
    another precision than the values' own nine times more slowly, and a copy of
    everything would not fit.
    """

    _values_at_once: ClassVar[int] = 2**20

    def squares(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """The squared norm of each row, over all pieces, as float64 [rows]."""
        return torch.stack([self._squares(piece) for piece in values]).sum(dim=0)

    def add_weighted(
        self, total: torch.Tensor, values: Sequence[torch.Tensor], factors: torch.Tensor
    ) -> None:
        """Add to `total` [width] the rows of all pieces, each times its factor (float32).

        Products and sums are float64. A row of factor zero adds zero, whatever it holds.
        """
        unused = (factors == 0).unsqueeze(1)
        some_unused = bool(unused.any())
        for place, piece in zip(_places(total, values), values, strict=True):
            for rows in self._few(piece):
                wide = _wide(piece[rows])
                if some_unused:
                    wide.masked_fill_(unused[rows], 0.0)
                place.addmv_(wide.t(), factors[rows].double())

    def _squares(self, piece: torch.Tensor) -> torch.Tensor:
        norms = [torch.linalg.vector_norm(_wide(piece[rows]), dim=1) for rows in self._few(piece)]
        return torch.cat(norms).square()

    def _few(self, piece: torch.Tensor) -> list[slice]:
        rows = max(1, self._values_at_once // max(1, piece[0].numel()))
        return [slice(start, start + rows) for start in range(0, len(piece), rows)]


class FusedSums(PieceSums):
    """The same, compiled: each piece is read once, and nothing is copied."""

    def __init__(self, through: str = "inductor") -> None:
        self._all_squares: Any = compiled(_all_squares, backend=through)
        self._all_weighted: Any = compiled(_all_weighted, backend=through)

    # Without gradients, or torch compiles them once more for whoever calls with gradients on.
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


def _wide(rows: torch.Tensor) -> torch.Tensor:
    """[rows, width] in float64, a copy."""
    return rows.reshape(len(rows), -1).to(torch.float64, copy=True)


def _places(total: torch.Tensor, values: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return torch.split(total, [piece[0].numel() for piece in values])
