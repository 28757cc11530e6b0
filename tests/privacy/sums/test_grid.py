"""Vectors on the grid: bounded after rounding, exactly, each row by itself."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from understudy.errors import PrivacyError
from understudy.privacy.sums import grid as grid_module
from understudy.privacy.sums.clipping import Blocks
from understudy.privacy.sums.grid import NOISE_STEPS, Grid, GridSum, to_grid

CPU = torch.device("cpu")
GRID = Grid.of(clip=0.5, sigma=64.0)


def squares(steps: torch.Tensor) -> list[int]:
    """Squared norms in Python's integers."""
    return [sum(int(k) ** 2 for k in row) for row in steps]


def hostile_rows() -> torch.Tensor:
    """Rows that rounding, overflow or what is not a number could make too long."""
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randn(300, generator=generator) for _ in range(40)]
    rows += [row / row.norm() * 0.5 for row in rows[:20]]
    rows += [torch.full((300,), sign * size) for sign in (1.0, -1.0) for size in (0.1, 1e30, 1e-45)]
    rows += [torch.full((300,), bad) for bad in (math.nan, math.inf, -math.inf)]
    mixed = torch.ones(300)
    mixed[7] = math.nan
    triple = torch.zeros(300)
    triple[:2] = torch.tensor([0.3, 0.4])
    largest = torch.full((300,), torch.finfo(torch.float32).max)
    one = torch.zeros(300)
    one[5] = -0.5
    return torch.stack([*rows, mixed, triple, largest, one, torch.zeros(300)])


@pytest.mark.parametrize("sigma", [2.0**-6, 0.3, 1.0, 3.7371, 64.0, 1e5, 2.0**20])
@pytest.mark.parametrize("clip", [0.5, 1.0, 3.3e-5, 700.1])
def test_no_row_is_longer_than_the_sensitivity_after_rounding(sigma: float, clip: float) -> None:
    grid = Grid.of(clip, sigma)
    rows = hostile_rows() * (clip / 0.5)
    steps, _ = to_grid(rows, grid)
    assert max(squares(steps)) <= grid.sensitivity**2
    assert min(squares(steps)) == 0


@pytest.mark.parametrize(("clip", "size"), [(1e-200, 1e-180), (1e-200, 1e200), (1e300, 1e300)])
def test_doubles_beyond_what_squares_can_hold_are_bounded_too(clip: float, size: float) -> None:
    grid = Grid.of(clip, 1.0)
    steps, _ = to_grid(torch.full((1, 4), size, dtype=torch.float64), grid)
    assert squares(steps)[0] <= grid.sensitivity**2


@pytest.mark.parametrize("sigma", [2.0**-6, 0.1, 0.53, 1.0, 3.7371, 1e5, 2.0**20])
def test_the_noise_over_the_sensitivity_is_at_least_sigma(sigma: float) -> None:
    grid = Grid.of(1.0, sigma)
    assert Fraction(NOISE_STEPS, grid.sensitivity) >= Fraction(sigma)
    if sigma <= 1000:
        assert Fraction(NOISE_STEPS, grid.sensitivity) <= Fraction(sigma) * Fraction(10001, 10000)
    assert grid.sensitivity >= 16
    assert grid.sensitivity <= 2**30


def test_rounding_is_towards_zero_and_loses_less_than_a_step() -> None:
    rows = torch.randn(50, 40, generator=torch.Generator().manual_seed(2)) * 0.01
    steps, norms = to_grid(rows, GRID)
    assert (norms < 0.5).all()
    exact = rows.double() / GRID.step
    assert (steps.double().abs() <= exact.abs()).all()
    assert ((steps - exact).abs() < 1).all()


def test_a_count_of_one_is_a_whole_sensitivity() -> None:
    """No count is lost, whether or not the sensitivity is a round number."""
    for sigma in (0.53, 1.0, 3.7371):
        grid = Grid.of(1.0, sigma)
        steps, _ = to_grid(torch.eye(3), grid)
        assert steps.tolist() == (grid.sensitivity * torch.eye(3, dtype=torch.int64)).tolist()


def test_a_row_means_the_same_in_any_company() -> None:
    """To the last bit: otherwise a unit that comes would move the steps of others."""
    rows = torch.randn(97, 1001, generator=torch.Generator().manual_seed(3))
    together, _ = to_grid(rows, Grid.of(1.0, 0.01))
    for size in (1, 2, 16, 63):
        apart = torch.cat([to_grid(some, Grid.of(1.0, 0.01))[0] for some in rows.split(size)])
        assert torch.equal(apart, together)


def test_rows_of_a_unit_are_added_before_they_are_rounded() -> None:
    total = GridSum(GRID, 300, CPU, single=False)
    third = torch.full((1, 300), 0.4 * GRID.step)  # each alone would round to nothing
    total.add(third.repeat(3, 1), np.array([0, 0, 0]))
    assert total.finish().tolist() == [1] * 300


def test_a_unit_counts_once_however_many_records_it_has() -> None:
    total = GridSum(GRID, 300, CPU, single=False)
    for _ in range(3):
        total.add(torch.ones(4, 300), np.array([7, 7, 7, -1]))
    assert squares(total.finish().unsqueeze(0))[0] <= GRID.sensitivity**2
    assert total.units == 1


def test_blocks_and_dense_rows_come_to_the_same() -> None:
    values = torch.randn(30, 8, generator=torch.Generator().manual_seed(4)) * 0.05
    blocks = Blocks(values, torch.arange(30) % 3, 3)
    sums = []
    for vectors in (blocks, blocks.dense()):
        total = GridSum(GRID, 24, CPU, single=True)
        total.add(vectors, np.arange(30))
        sums.append(total.finish().tolist())
    assert sums[0] == sums[1]


def test_padding_rows_add_nothing_and_clipped_ones_are_counted() -> None:
    total = GridSum(GRID, 2, CPU, single=True)
    total.add(torch.tensor([[0.1, 0.0], [3.0, 4.0], [9.0, 9.0]]), np.array([0, 1, -1]))
    assert (total.units, total.clipped) == (2, 1)
    steps, _ = to_grid(torch.tensor([[0.1, 0.0], [3.0, 4.0]]), GRID)
    assert total.finish().tolist() == steps.sum(dim=0).tolist()


def test_sums_that_could_leave_their_integers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert grid_module._MOST_UNITS * Grid.of(1.0, 2.0**-6).sensitivity < 2**63 - 2**40
    monkeypatch.setattr(grid_module, "_MOST_UNITS", 4)
    total = GridSum(GRID, 2, CPU, single=True)
    total.add(torch.ones(4, 2), np.arange(4))
    with pytest.raises(PrivacyError, match="up to 4 units"):
        total.add(torch.ones(1, 2), np.arange(1))
