"""Multiplications are counted as they are done, and none is done."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from understudy.nets.counting import count_multiplications


def test_dense_layers_multiply_once_for_each_weight() -> None:
    assert count_multiplications(lambda: nn.Linear(7, 5), ((7,),)) == 35


def test_convolutions_do_so_at_each_place() -> None:
    found = count_multiplications(
        lambda: nn.Sequential(nn.Conv2d(3, 8, 5, stride=2, padding=2), nn.Flatten()), ((3, 28, 28),)
    )
    assert found == 3 * 8 * 25 * 14 * 14


def test_layers_of_every_depth_are_counted_and_used_ones_alone() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 2)))
            self.unused = nn.Linear(100, 100)

        def forward(self, rows: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
            done: torch.Tensor = self.inner(rows) + self.inner(more)
            return done

    assert count_multiplications(Two, ((4,), (4,))) == 2 * (16 + 8)


def test_numbers_that_others_draw_stay_the_same() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    count_multiplications(lambda: nn.Linear(7, 5), ((7,),))
    assert torch.equal(torch.rand(3), expected)


def test_no_memory_is_taken() -> None:
    def build() -> nn.Module:
        made = nn.Linear(2**16, 2**16)
        assert made.weight.is_meta
        return made

    assert count_multiplications(build, ((2**16,),)) == pytest.approx(2**32)
