"""The clipped sum: what one unit can do to it, whatever its rows hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from understudy.errors import PrivacyError
from understudy.privacy.sums.clipping import Blocks, ClippedSum, clip_factors, clip_rows
from understudy.privacy.sums.gradient_pieces import Pieces, PieceSums

CPU = torch.device("cpu")
SUMMED = 1 + 1e-12
"""What float64 may add where a sum is taken off another."""


def clipped_sum(
    rows: torch.Tensor | Blocks, units: np.ndarray, clip: float, single: bool, chunk: int = 0
) -> torch.Tensor:
    """The sum, taken in chunks of some size."""
    total = ClippedSum(clip, rows.shape[1], CPU, single)
    chunk = chunk or len(rows)
    for start in range(0, len(rows), chunk):
        part = slice(start, start + chunk)
        total.add(_some(rows, part), units[part])
    return total.finish()


def _some(rows: torch.Tensor | Blocks, part: slice) -> torch.Tensor | Blocks:
    if isinstance(rows, Blocks):
        return Blocks(rows.values[part], rows.block[part], rows.blocks)
    return rows[part]


def reference(rows: torch.Tensor, units: np.ndarray, clip: float) -> torch.Tensor:
    """Unit by unit, in float64, with no cleverness."""
    total = torch.zeros(rows.shape[1], dtype=torch.float64)
    for unit in np.unique(units[units >= 0]):
        vector = rows[torch.from_numpy(units == unit)].double().sum(dim=0)
        norm = float(vector.norm())
        if math.isfinite(norm):
            total += vector * min(1.0, clip / norm if norm else 1.0)
    return total


EXTREMES = {
    "zero": [0.0, 0.0, 0.0],
    "just the clip": [0.6, 0.8, 0.0],
    "tiny": [1e-45, 1e-45, 0.0],
    "small": [1e-20, -1e-20, 1e-20],
    "large": [1e19, 1e19, -1e19],
    "largest": [3.4e38, 3.4e38, 3.4e38],
    "not a number": [float("nan"), 1.0, 1.0],
    "infinite": [float("inf"), 1.0, 1.0],
    "minus infinite": [1.0, -float("inf"), 1.0],
    "both": [float("inf"), -float("inf"), 0.0],
}


@pytest.mark.parametrize("clip", [1e-3, 0.1, 1.0, 1e4])
@pytest.mark.parametrize("values", EXTREMES.values(), ids=EXTREMES.keys())
def test_one_unit_never_adds_more_than_the_clip(values: list[float], clip: float) -> None:
    rows = torch.tensor([values])
    for single in (True, False):
        total = clipped_sum(rows, np.array([0]), clip, single)
        assert torch.isfinite(total).all()
        assert float(total.norm()) <= clip, "longer than the clip"


def test_random_rows_are_clipped_within_the_bound_in_float32() -> None:
    torch.manual_seed(0)
    rows = torch.randn(2000, 50) * torch.logspace(-20, 19, 2000).unsqueeze(1)
    for clip in (1e-6, 1.0, 3.7):
        bounded, norms = clip_rows(rows, clip)
        assert bounded.dtype == torch.float32
        assert float(bounded.double().norm(dim=1).max()) <= clip, "longer than the clip"
        long = norms > clip
        assert torch.allclose(bounded[long].double().norm(dim=1), torch.tensor(clip).double())
        assert torch.equal(bounded[~long], rows[~long])


def test_a_vector_too_long_for_exact_factors_adds_nothing() -> None:
    """A wide vector of the largest floats: its factor has few digits, it would be too long."""
    rows = torch.full((1, 10**5), 3.4e38)
    assert float(clip_rows(rows, 1e-6)[0].abs().max()) == 0.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64])
def test_the_bound_holds_for_rows_of_any_type(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    rows = (10 * torch.randn(64, 200)).to(dtype)
    for row in rows:
        total = clipped_sum(row.unsqueeze(0), np.array([0]), 1.0, single=True)
        assert float(total.norm()) <= 1.0, "longer than the clip"


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7, 0])
def test_units_that_straddle_chunks_are_clipped_once(chunk: int) -> None:
    torch.manual_seed(2)
    units = np.repeat(np.arange(6), [1, 4, 2, 7, 1, 3])
    rows = torch.randn(len(units), 9)
    rows[5] = float("nan")
    whole = clipped_sum(rows, units, 0.8, single=False, chunk=chunk)
    assert torch.allclose(whole, reference(rows, units, 0.8), atol=1e-6)


def test_where_chunks_end_does_not_change_a_unit() -> None:
    """Rows that cancel: another order of adding would make another vector of them."""
    rows = torch.tensor([[1e30], [1.0], [-1e30], [0.5]])
    units = np.zeros(4, dtype=np.int64)
    sums = {
        float(clipped_sum(rows, units, 1.0, single=False, chunk=chunk)) for chunk in (1, 2, 3, 4)
    }
    assert len(sums) == 1


class Compiled(PieceSums):
    """Sums for one number of rows: a compiler would be asked for every other one."""

    def add_weighted(
        self, total: torch.Tensor, values: Sequence[torch.Tensor], weights: torch.Tensor
    ) -> None:
        assert len(weights) == 4, "how many units stand in a chunk reached the compiler"
        super().add_weighted(total, values, weights)


def test_how_many_units_stand_in_a_chunk_reaches_no_compiler() -> None:
    rows, units = torch.randn(12, 3), np.repeat(np.arange(5), [1, 4, 2, 2, 3])
    total = ClippedSum(0.8, 3, torch.device("cpu"), False, Compiled())
    for start in range(0, 12, 4):
        some = slice(start, start + 4)
        total.add(Pieces((rows[some],)), units[some])
    assert torch.allclose(total.finish(), reference(rows, units, 0.8), atol=1e-6)


def test_a_unit_is_not_clipped_record_by_record() -> None:
    rows = torch.ones(4, 1)
    units = np.array([0, 0, 0, 1])
    assert float(clipped_sum(rows, units, 1.0, single=False)) == pytest.approx(2.0)


def test_adding_a_unit_moves_the_sum_by_at_most_the_clip() -> None:
    """The worst neighbour: many units in one direction, and one that shifts all chunks.

    Summed in float32, rounding alone would move it further than the bound allows.
    """
    rows = 1 + 1e-2 * torch.rand(20_001, 30, generator=torch.Generator().manual_seed(1))
    units, clip = np.arange(len(rows)), 0.1
    more = clipped_sum(rows, units, clip, single=True, chunk=1024)
    moves = []
    for gone in (0, 1, 500, 1000):
        keep = np.delete(units, gone)
        less = clipped_sum(rows[keep], units[:-1], clip, single=True, chunk=1024)
        moves.append(float((more - less).norm()))
    assert max(moves) <= clip * SUMMED


@pytest.mark.parametrize("single", [True, False])
def test_padding_adds_exactly_nothing(single: bool) -> None:
    rows = torch.tensor([[0.3, 0.4], [100.0, float("nan")], [5.0, 5.0]])
    alone = clipped_sum(rows[:1], np.array([0]), 1.0, single)
    padded = clipped_sum(rows, np.array([0, -1, -1]), 1.0, single)
    assert torch.equal(alone, padded)
    nobody = clipped_sum(rows, np.array([-1, -1, -1]), 1.0, single)
    assert torch.equal(nobody, torch.zeros(2, dtype=torch.float64))


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("chunk", [3, 0])
def test_blocks_mean_the_same_as_their_dense_form(single: bool, chunk: int) -> None:
    torch.manual_seed(3)
    count = 10
    blocks = Blocks(3 * torch.randn(count, 4), torch.randint(5, (count,)), 5)
    blocks.values[2] = float("inf")
    units = np.arange(count) if single else np.repeat(np.arange(4), [3, 1, 4, 2])
    sparse = clipped_sum(blocks, units, 1.5, single, chunk)
    dense = clipped_sum(blocks.dense(), units, 1.5, single, chunk)
    assert torch.allclose(sparse, dense, atol=1e-6)
    assert torch.allclose(dense, reference(blocks.dense(), units, 1.5), atol=1e-6)


def test_the_owner_is_told_how_many_were_clipped() -> None:
    total = ClippedSum(1.0, 1, CPU, single=True)
    total.add(torch.tensor([[0.5], [2.0], [3.0], [float("nan")]]), np.arange(4))
    assert (total.units, total.clipped) == (4, 2)


@pytest.mark.parametrize(
    "rows",
    [
        torch.ones(2, 1),
        torch.ones(2, 4),
        torch.ones(3, 3),
        torch.ones(1, 3),
        torch.ones(2),
        torch.ones(2, 3, 1),
        Blocks(torch.ones(2, 1), torch.zeros(2, dtype=torch.int64), 1),
    ],
    ids=["broadcast", "wide", "rows", "few", "flat", "deep", "blocks"],
)
def test_vectors_of_another_form_are_refused(rows: torch.Tensor | Blocks) -> None:
    """A vector of width one would be added to every coordinate: sensitivity sqrt(width)."""
    total = ClippedSum(1.0, 3, CPU, single=True)
    with pytest.raises(PrivacyError, match="one width"):
        total.add(rows, np.arange(2))


@pytest.mark.parametrize(
    ("values", "block"),
    [
        (torch.ones(3), torch.zeros(3)),
        (torch.ones(3, 2), torch.zeros(3, 1)),
        (torch.ones(3, 2), torch.zeros(2)),
    ],
)
def test_blocks_of_another_form_are_refused(values: torch.Tensor, block: torch.Tensor) -> None:
    with pytest.raises(PrivacyError, match="one block number a row"):
        Blocks(values, block.long(), 4)


@pytest.mark.parametrize("width", [1, 3, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounding_of_the_clip_stays_inside_it(dtype: torch.dtype, width: int) -> None:
    """A float32 factor is rounded up half of the time, and so is every product."""
    torch.manual_seed(0)
    rows = (torch.randn(2000, width) * torch.logspace(-2, 3, 2000).unsqueeze(1)).to(dtype)
    for clip in (0.1, 1 / 3, 1.0, 7.7):
        for bounded in (clip_rows(rows.float(), clip)[0], _each_alone(rows, clip)):
            norms = bounded.double().norm(dim=1)
            assert float(norms.max()) <= clip, "longer than the clip"
            long = rows.double().norm(dim=1) > clip
            assert float(norms[long].min()) >= clip * (1 - 1e-6)


def _each_alone(rows: torch.Tensor, clip: float) -> torch.Tensor:
    """What every row adds to a sum of gradients."""
    found = torch.zeros(len(rows), rows.shape[1], dtype=torch.float64)
    norms = PieceSums().squares((rows,)).sqrt()
    factors = clip_factors(norms, clip)
    for total, row, factor in zip(found, rows, factors, strict=True):
        PieceSums().add_weighted(total, (row.unsqueeze(0),), factor.unsqueeze(0))
    return found


def test_a_vector_of_exactly_the_clip_is_left_as_it_is() -> None:
    """Counts of a histogram stay whole numbers."""
    rows = torch.eye(3)
    assert torch.equal(clip_rows(rows, 1.0)[0], rows)
