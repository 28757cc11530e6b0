"""The clipped sum: the only place that bounds a unit's influence (L2 sensitivity)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from understudy.errors import PrivacyError
from understudy.privacy.sums.gradient_pieces import Pieces, PieceSums
from understudy.privacy.sums.units import Rows

_LEAST_FACTOR = 1e-30
"""Below this a float32 factor loses digits, and a clipped vector could exceed the clip."""

_SHORTENED = 1 - 2.0**-22
"""The norm, in clips, to which a longer vector is scaled: a float32 factor and a float32 product
round by 2^-24 each, so the clipped vector is never longer than the clip."""

_VALUES_AT_ONCE = 2**25
"""Values scaled and summed at once, so that their copies stay small beside the gradients."""


@dataclass(frozen=True)
class Blocks:
    """Vectors of length `blocks * d`, each zero outside one block of length d.

    Class-conditional features have this form: `values[i]` is block `block[i]` of vector i, and the
    zeros are not stored.
    """

    values: torch.Tensor
    block: torch.Tensor
    blocks: int

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.block.shape != self.values.shape[:1]:
            raise PrivacyError(
                "Blocks needs values [rows, d] and one block number a row, not "
                f"{list(self.values.shape)} and {list(self.block.shape)}."
            )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.values), self.blocks * self.values.shape[1]

    def dense(self) -> torch.Tensor:
        rows, width = self.values.shape
        full = self.values.new_zeros(rows, self.blocks, width)
        full[torch.arange(rows, device=full.device), self.block] = self.values
        return full.reshape(rows, -1)


def clip_factors(norms: torch.Tensor, clip: float) -> torch.Tensor:
    """The float32 factors that clip vectors of these float64 norms.

    Guarantee: 1 for a norm of at most `clip`; otherwise such that the product, in float32 or
    float64, has a float64 norm of at most `clip`. Zero for a vector that is not finite, or longer
    than 1e30 clips: the caller must then not use its values at all.
    """
    factors = torch.where(norms <= clip, 1.0, _SHORTENED * clip / norms)
    usable = torch.isfinite(norms) & (factors > _LEAST_FACTOR)
    return torch.where(usable, factors, 0.0).float()


def clip_rows(vectors: torch.Tensor, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Float32 vectors [rows, width], each of float64 norm at most `clip`, and the norms they had.
    One that is not finite, or longer than 1e30 clips, becomes zero."""
    norms = PieceSums().squares((vectors,)).sqrt()
    factors = clip_factors(norms, clip).unsqueeze(1)
    scaled: torch.Tensor = vectors * factors
    if not bool(factors.all()):
        scaled.masked_fill_(factors == 0, 0.0)
    return scaled, norms


def clip_whole(vector: torch.Tensor, clip: float) -> torch.Tensor:
    """A tensor of any shape as one float64 vector of norm at most `clip`.

    Guarantee: whatever it holds; one that is not finite becomes zero. Any two results are at most
    `2 * clip` apart, and that much where they point in opposite directions.
    """
    clipped, _ = clip_rows(vector.detach().reshape(1, -1).float(), clip)
    return clipped[0].double()


@dataclass(frozen=True)
class Clipped:
    """The sum (float64 [width]) of a chunk of units that have one row each, each clipped to `clip`.

    norms: of the rows before clipping, as float64 [rows].
    """

    total: torch.Tensor
    norms: torch.Tensor
    clip: float


def clip_into(
    total: torch.Tensor, vectors: Pieces, used: torch.Tensor, clip: float, sums: PieceSums
) -> torch.Tensor:
    """Add rows to `total` (float64 [width]), each clipped; returns their norms before clipping.

    Guarantee: a row adds a vector of float64 norm at most `clip`, and zero where it is not used
    (bool [rows]) or not finite. Nothing here waits for a GPU, so a CUDA graph can capture it.
    """
    if vectors.shape != (len(used), len(total)) or used.ndim != 1 or total.ndim != 1:
        raise PrivacyError(
            f"expected vectors [{len(used)}, {len(total)}], one a row, not {list(vectors.shape)}."
        )
    norms = sums.squares(vectors.values).sqrt()
    factors = torch.where(used, clip_factors(norms, clip), 0.0)
    sums.add_weighted(total, vectors.values, factors)
    return norms


class ClippedSum:
    """The sum over units of their vectors, each clipped to L2 norm at most `clip`.

    Guarantee: a unit's vector is the sum of its rows' vectors. What is added for a unit has
    float64 norm at most `clip`, whatever the rows hold: a unit with a vector that is not finite
    (or longer than 1e30 clips) adds zero, and so does a padding row. Norms are taken in float64
    of the very values that are summed, in whatever precision they came. Units are added up in
    float64. Adding or removing one unit therefore moves the sum by at most `clip`.

    Rows come in chunks with the rows of one unit together; a unit may go on in the next
    chunk. Padding rows have unit -1 and stand last.
    """

    _values_at_once: ClassVar[int] = _VALUES_AT_ONCE

    def __init__(
        self,
        clip: float,
        width: int,
        device: torch.device,
        single: bool,
        sums: PieceSums | None = None,
    ) -> None:
        self.width, self.single = width, single
        self._clip = clip
        self._sums = sums or PieceSums()
        self._total = torch.zeros(width, dtype=torch.float64, device=device)
        self._carry: torch.Tensor | None = None
        self._carry_unit = -1
        self.units = 0
        # Longer than the clip: a scalar on the device for the owner's log, never released.
        self.clipped = torch.zeros((), dtype=torch.int64, device=device)

    def add(self, vectors: torch.Tensor | Blocks | Pieces, units: Rows) -> None:
        """Add one chunk: `vectors` [rows, width] and the unit of each row."""
        self._check_form(vectors, units)
        real = int((units >= 0).sum())
        if not real:
            return
        if self.single and isinstance(vectors, Pieces):
            self._add_pieces(vectors, real)
            return
        if self.single and isinstance(vectors, Blocks):
            self._add_blocks(vectors, real)
            return
        dense = vectors if isinstance(vectors, torch.Tensor) else vectors.dense()
        rows = dense[:real].float()
        if self.single:
            self._add_units(rows)
        else:
            self._add_grouped(rows, torch.from_numpy(units[:real]).to(rows.device))

    def add_clipped(self, chunk: Clipped, real: int) -> None:
        """Add a chunk that `clip_into` has summed; its first `real` rows were used.

        Guarantee: that of `clip_into`; a chunk with another clip is refused, and so is any chunk
        where units may have several records.
        """
        if chunk.clip != self._clip or not self.single:
            raise PrivacyError(
                f"a chunk of single units clipped to {chunk.clip:g} cannot be added to a sum "
                f"that clips {'units' if self.single else 'groups of rows'} to {self._clip:g}."
            )
        if chunk.total.shape != self._total.shape or len(chunk.norms) < real:
            raise PrivacyError(
                f"expected the sum of {real} rows or more of width {len(self._total)}, not of "
                f"{len(chunk.norms)} of width {list(chunk.total.shape)}."
            )
        self._total += chunk.total
        self._count(chunk.norms[:real])

    def finish(self) -> torch.Tensor:
        """The sum, as float64 [width]."""
        if self._carry is not None:
            self._add_units(self._carry.unsqueeze(0))
            self._carry = None
        return self._total

    def _add_grouped(self, rows: torch.Tensor, units: torch.Tensor) -> None:
        names, slots = torch.unique_consecutive(units, return_inverse=True)
        sums = rows.new_zeros(len(names), rows.shape[1])
        if self._carry is not None:
            # Rows are added in their order, whichever chunk they came in: a unit's vector must not
            # depend on where chunks end, which other units decide.
            if int(names[0]) == self._carry_unit:
                sums[0] = self._carry
            else:
                self._add_units(self._carry.unsqueeze(0))
        sums.index_add_(0, slots, rows)
        self._carry, self._carry_unit = sums[-1].clone(), int(names[-1])
        if len(names) > 1:
            self._add_units(sums[:-1])

    def _add_units(self, vectors: torch.Tensor) -> None:
        rows = max(1, self._values_at_once // max(1, vectors.shape[1]))
        for some in torch.split(vectors, rows):
            self._add_bounded(self._bounded(some))

    def _add_bounded(self, bounded: torch.Tensor) -> None:
        everyone = torch.ones(len(bounded), device=bounded.device)
        # Eager sums: how many units a chunk holds is private, and would reach the compiler.
        PieceSums().add_weighted(self._total, (bounded,), everyone)

    def _add_pieces(self, vectors: Pieces, real: int) -> None:
        """Whole chunks, so that all have one shape; a mask excludes the padding rows."""
        used = torch.arange(len(vectors), device=self._total.device) < real
        norms = clip_into(self._total, vectors, used, self._clip, self._sums)
        self._count(norms[:real])

    def _add_blocks(self, vectors: Blocks, real: int) -> None:
        bounded = self._bounded(vectors.values[:real].float())
        by_block = self._total.view(vectors.blocks, -1)
        by_block.index_add_(0, vectors.block[:real], bounded.to(by_block.dtype))

    def _bounded(self, vectors: torch.Tensor) -> torch.Tensor:
        bounded, norms = clip_rows(vectors, self._clip)
        self._count(norms)
        return bounded

    def _count(self, norms: torch.Tensor) -> None:
        self.units += len(norms)
        self.clipped += (norms > self._clip).sum()

    def _check_form(self, vectors: torch.Tensor | Blocks | Pieces, units: Rows) -> None:
        """Refuse another width: torch would broadcast the vector, and it would count repeatedly."""
        if tuple(vectors.shape) != (len(units), len(self._total)):
            raise PrivacyError(
                f"expected vectors [{len(units)}, {len(self._total)}], one a row and all of "
                f"one width, not {list(vectors.shape)}."
            )
