"""Per-example gradients as one tensor per parameter, and norms and sums over them in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch


@dataclass(frozen=True)
class Pieces:
    """One vector a row, in pieces [rows, ...] of any floating type (as `grad_sample` in Opacus).

    Concatenating them would take a copy, and more memory where a piece has low precision.
    """

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
    """Norms of rows and weighted sums over rows, in float64 for values of any precision.

    A few contiguous rows at a time are copied to float64: a torch reduction in another precision
    than the values' own takes nine times as long, and a copy of all rows would not fit.
    """

    _values_at_once: ClassVar[int] = 2**20

    def squares(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """The squared norm of each row, over all pieces, as float64 [rows]."""
        return torch.stack([self._squares(piece) for piece in values]).sum(dim=0)

    def add_weighted(
        self, total: torch.Tensor, values: Sequence[torch.Tensor], factors: torch.Tensor
    ) -> None:
        """Add to `total` [width] the rows of all pieces, each multiplied by its float32 factor.

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


def _wide(rows: torch.Tensor) -> torch.Tensor:
    """[rows, width] in float64, a copy."""
    return rows.reshape(len(rows), -1).to(torch.float64, copy=True)


def _places(total: torch.Tensor, values: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return torch.split(total, [piece[0].numel() for piece in values])
