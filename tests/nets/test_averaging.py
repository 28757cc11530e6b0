"""Averages of weights, and modules and optimisers as named tensors."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from understudy.nets.averaging import average_into, refresh_statistics
from understudy.nets.packing import (
    pack_module,
    pack_optimizer,
    unpack_module,
    unpack_optimizer,
)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))


class TestAverage:
    def test_it_moves_by_one_minus_the_decay(self) -> None:
        average, module = nn.Linear(1, 1), nn.Linear(1, 1)
        nn.init.constant_(average.weight, 1.0)
        nn.init.constant_(module.weight, 2.0)
        average_into(average, module, decay=0.9, updates=10_000)
        assert average.weight.item() == pytest.approx(1.1)

    def test_early_updates_count_more(self) -> None:
        average, module = nn.Linear(1, 1), nn.Linear(1, 1)
        nn.init.constant_(average.weight, 0.0)
        nn.init.constant_(module.weight, 1.0)
        average_into(average, module, decay=0.999, updates=0)
        assert average.weight.item() == pytest.approx(0.9)

    def test_without_decay_it_copies_buffers_too(self) -> None:
        average, module = network(), network()
        module(torch.randn(8, 2))
        average_into(average, module, decay=0.0, updates=5)
        for name, value in module.state_dict().items():
            assert torch.equal(average.state_dict()[name], value), name

    def test_statistics_are_measured_anew(self) -> None:
        module = nn.Sequential(nn.BatchNorm1d(1))
        module(torch.randn(16, 1) * 100)
        rows = torch.randn(64, 1) + 7
        refresh_statistics(module, [(rows[:32],), (rows[32:],)])
        assert not module.training
        assert float(module.state_dict()["0.running_mean"]) == pytest.approx(
            float(rows.mean()), abs=1e-4
        )


class TestPacking:
    def test_a_module_comes_back(self) -> None:
        before, after = network(), network()
        before(torch.randn(4, 2))
        unpack_module("x", after, {**pack_module("x", before), "y.other": torch.zeros(1)})
        for name, value in before.state_dict().items():
            assert torch.equal(after.state_dict()[name], value), name

    def test_a_missing_tensor_is_an_error(self) -> None:
        packed = pack_module("x", network())
        packed.pop("x.0.weight")
        with pytest.raises(RuntimeError, match="Missing key"):
            unpack_module("x", network(), packed)

    def test_an_optimiser_goes_on_as_if_it_had_not_stopped(self) -> None:
        def step(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
            module.zero_grad()
            module(torch.ones(4, 2)).square().sum().backward()
            optimizer.step()

        one, other = nn.Linear(2, 1), nn.Linear(2, 1)
        first, second = (torch.optim.Adam(m.parameters(), lr=0.1) for m in (one, other))
        for _ in range(3):
            step(one, first)
        unpack_module("m", other, pack_module("m", one))
        unpack_optimizer("o", second, pack_optimizer("o", first))
        step(one, first)
        step(other, second)
        assert torch.equal(one.weight, other.weight)

    def test_a_fresh_optimiser_packs_to_nothing(self) -> None:
        assert pack_optimizer("o", torch.optim.Adam(nn.Linear(1, 1).parameters())) == {}
