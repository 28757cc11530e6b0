"""Gradients in pieces are clipped as one vector, in whatever precision they came."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from understudy.errors import PrivacyError
from understudy.privacy.dpsgd import fused_sums
from understudy.privacy.dpsgd.fused_sums import FusedSums
from understudy.privacy.sums.clipping import ClippedSum
from understudy.privacy.sums.gradient_pieces import Pieces, PieceSums

CPU = torch.device("cpu")
PRECISIONS = [torch.float32, torch.bfloat16, torch.float16]


class Unfused(FusedSums):
    """The sums that are compiled on a GPU, run as they are written."""

    def __init__(self) -> None:
        self._all_squares = fused_sums._all_squares
        self._all_weighted = fused_sums._all_weighted


def pieces_of(rows: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Pieces:
    """Many small values beside few large ones: what low precision gets wrong first."""
    chance = torch.Generator().manual_seed(seed)
    wide = 1e-2 * (1 + torch.rand(rows, 4, 70_000, generator=chance))
    few = torch.randn(rows, 5, generator=chance)
    return Pieces((wide.to(dtype), few))


@pytest.mark.parametrize("sums", [PieceSums(), Unfused()])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_one_record_adds_at_most_the_clip(dtype: torch.dtype, sums: PieceSums) -> None:
    vectors = pieces_of(3, dtype)
    for clip in (1e-3, 1.0):
        total = ClippedSum(clip, vectors.shape[1], CPU, True, sums)
        total.add(vectors, np.array([0, -1, -1]))
        norm = float(total.finish().norm())
        assert norm <= clip, "longer than the clip"
        assert norm >= clip * (1 - 1e-6)


@pytest.mark.parametrize("sums", [PieceSums(), Unfused()])
@pytest.mark.parametrize("single", [True, False])
def test_pieces_mean_the_same_as_their_dense_form(single: bool, sums: PieceSums) -> None:
    vectors = pieces_of(6)
    units = np.arange(6) if single else np.array([0, 0, 1, 2, 2, 3])
    found = []
    for given in (vectors, vectors.dense()):
        total = ClippedSum(5.0, vectors.shape[1], CPU, single, sums)
        total.add(given, units)
        found.append((total.finish(), total.units, total.clipped))
    assert torch.allclose(found[0][0], found[1][0], atol=1e-7)
    assert found[0][1:] == found[1][1:]


@pytest.mark.parametrize("sums", [PieceSums(), Unfused()])
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf")])
def test_a_record_that_is_not_finite_adds_nothing(poison: float, sums: PieceSums) -> None:
    vectors = pieces_of(3)
    vectors.values[1][1, 2] = poison
    totals = []
    for units in ([0, 1, 2], [0, -1, -1]):
        total = ClippedSum(1.0, vectors.shape[1], CPU, True, sums)
        order = [0, 1, 2] if units[1] >= 0 else [0, 2, 1]
        total.add(Pieces(tuple(piece[order] for piece in vectors.values)), np.array(units))
        totals.append(total.finish())
    assert torch.isfinite(totals[0]).all(), "not finite"
    alone = ClippedSum(1.0, vectors.shape[1], CPU, True, sums)
    alone.add(Pieces(tuple(piece[2:] for piece in vectors.values)), np.array([0]))
    assert torch.allclose(totals[0] - totals[1], alone.finish())


@pytest.mark.parametrize("sums", [PieceSums(), Unfused()])
def test_rows_are_added_up_in_float64(sums: PieceSums) -> None:
    """Beside many, one record's last bits would be lost in float32."""
    vectors = Pieces((torch.full((5000, 3), 1.0 + 2**-20),))
    total = ClippedSum(10.0, 3, CPU, True, sums)
    total.add(vectors, np.arange(5000))
    wanted = [5000 * (1.0 + 2**-20)] * 3
    assert total.finish().tolist() == wanted, "last bits were lost beside many"


def test_pieces_of_another_width_are_refused() -> None:
    with pytest.raises(PrivacyError, match="one width"):
        ClippedSum(1.0, 4, CPU, single=True).add(Pieces((torch.ones(2, 3),)), np.arange(2))


def test_norms_do_not_depend_on_the_order_of_memory() -> None:
    """Kernels' gradients come with channels innermost; zeros of a few rows tell rows apart."""
    kernels = torch.randn(5, 4, 3, 3, 2) * torch.arange(5.0).reshape(5, 1, 1, 1, 1)
    turned = kernels.permute(0, 1, 4, 2, 3)
    few = torch.randn(5, 7)
    wanted = kernels.double().flatten(1).square().sum(1) + few.double().square().sum(1)
    for sums in (PieceSums(), Unfused()):
        found = sums.squares([turned, few])
        assert torch.allclose(found, wanted, rtol=1e-12), type(sums).__name__


def test_compiled_sums_are_compiled_once_with_and_without_gradients() -> None:
    """They are checked with gradients off, and used with them on."""
    sums, graphs = FusedSums("eager"), torch._dynamo.utils.counters["stats"]
    before = graphs["unique_graphs"]
    for on in (True, False):
        with torch.set_grad_enabled(on):
            values = [torch.ones(2, 3), torch.ones(2, 1)]
            total = torch.zeros(4, dtype=torch.float64)
            assert sums.squares(values).tolist() == [4.0, 4.0]
            sums.add_weighted(total, values, torch.ones(2))
            assert total.tolist() == [2.0, 2.0, 2.0, 2.0]
    assert graphs["unique_graphs"] == before + 2
