"""Central spread: what classes share, a class's own beyond noise, and scales beyond those told."""

from __future__ import annotations

import math

import pytest
import torch

from understudy.methods.diffusion.central_axes import AxesSettings
from understudy.methods.diffusion.central_spread import CentralSpread

SETTINGS = AxesSettings(shape=(3, 16, 16), classes=2, side=6, clip=1000.0, mass=0.1)
WAVES = 3 * 36
COUNT = 400


def natural(power: float = 2.0, side: int = 6) -> torch.Tensor:
    """Squares that fall with the scale, alike in every channel, `[waves, waves]`."""
    places = torch.arange(side).double()
    scale = (places[:, None] ** 2 + places**2).sqrt().clamp(min=1).flatten()
    return torch.kron(torch.eye(3).double(), torch.diag(scale**-power))


def released(squares: torch.Tensor, noise: float, seed: int = 0) -> torch.Tensor:
    """The noisy sum over two classes of 200 records each that differ by these squares."""
    first, second = torch.triu_indices(WAVES, WAVES)
    once = torch.where(first == second, 1.0, math.sqrt(2)).double()
    blocks = torch.zeros(2, 1 + len(first), dtype=torch.float64)
    blocks[:, 0] = 200 * SETTINGS.unit_mass
    blocks[:, 1:] = 200 * squares[:, first, second] * once
    random = torch.Generator().manual_seed(seed)
    blocks[:, 1:] += noise * torch.randn(2, len(first), generator=random, dtype=torch.float64)
    return blocks.flatten()


def shown(spread: CentralSpread) -> torch.Tensor:
    roots = spread.coefficients.double()
    return roots @ roots.transpose(1, 2)


def relative(found: torch.Tensor, true: torch.Tensor) -> float:
    return float((found - true).norm() / true.norm())


class TestSpread:
    def test_without_noise_it_is_what_each_class_varies_by(self) -> None:
        own = torch.stack([natural(), 3 * natural(1.0)])
        spread = CentralSpread.read(released(own, 0.0), SETTINGS, COUNT, 0.0)
        assert relative(shown(spread), own) < 0.01

    def test_what_is_noise_of_a_class_is_not_believed_but_what_all_share_is(self) -> None:
        """Noise that hides every difference between classes leaves each as all are together."""
        own = natural().expand(2, -1, -1)
        noisy = released(own, 20.0)
        spread = CentralSpread.read(noisy, SETTINGS, COUNT, 20.0)
        assert relative(shown(spread), own) < 0.35, "noise is shown as a difference"
        believed = CentralSpread.read(noisy, SETTINGS, COUNT, 0.0)
        assert relative(shown(believed), own) > 0.5, "the noise of this test hides nothing"

    def test_a_class_that_stands_out_keeps_what_is_its_own(self) -> None:
        along = torch.zeros(WAVES, WAVES, dtype=torch.float64)
        along[7, 7] = 30.0
        own = torch.stack([natural(), natural() + along])
        found = shown(CentralSpread.read(released(own, 20.0), SETTINGS, COUNT, 20.0))
        assert float(found[1, 7, 7]) > 2 * float(found[0, 7, 7])

    def test_a_class_is_never_divided_by_less_than_declared_counts_allow(self) -> None:
        blocks = released(natural().expand(2, -1, -1), 0.0).reshape(2, -1)
        blocks[0, 0] = -3.0
        few, many = shown(CentralSpread.read(blocks.flatten(), SETTINGS, COUNT, 0.0))
        most = 200 / (COUNT / 4) * float(natural().trace()) * 1.01
        assert float(few.trace()) <= most, "divided by a count that is not declared"
        assert float(many.trace()) > 0

    @pytest.mark.parametrize("power", [1.5, 2.0, 3.0])
    def test_finer_scales_go_on_as_those_that_are_told(self, power: float) -> None:
        own = natural(power).expand(2, -1, -1)
        spread = CentralSpread.read(released(own, 0.0), SETTINGS, COUNT, 0.0)
        assert not spread.finer[:6, :6].any(), "a scale that was told varies twice"
        told, beyond = 3 * 4.0**-power, float(spread.finer[0, 12].square())
        assert told / beyond == pytest.approx(3.0**power, rel=0.35)
        mixed = (spread.mixing @ spread.mixing.T).double()
        assert torch.allclose(mixed, torch.eye(3).double() / 3, atol=0.02)


class TestDraws:
    def test_they_vary_as_was_read(self) -> None:
        own = torch.stack([natural(), 4 * natural()])
        spread = CentralSpread.read(released(own, 0.0), SETTINGS, COUNT, 0.0)
        labels = torch.arange(2).repeat(4000)
        apart = spread.apart(labels, torch.Generator().manual_seed(0))
        told = apart @ spread.waves.T
        for label in range(2):
            spread_of = torch.cov(told[labels == label].T).double()
            assert relative(spread_of.diagonal(), own[label].diagonal()) < 0.1

    def test_finer_scales_vary_too_and_say_nothing_of_the_class(self) -> None:
        own = torch.stack([natural(), 4 * natural()])
        spread = CentralSpread.read(released(own, 0.0), SETTINGS, COUNT, 0.0)
        labels = torch.arange(2).repeat(2000)
        apart = spread.apart(labels, torch.Generator().manual_seed(0))
        rest = apart - (apart @ spread.waves.T) @ spread.waves
        first, second = (rest[labels == label].square().sum(dim=1).mean() for label in range(2))
        expected = float(spread.finer.square().sum())
        assert float(first) == pytest.approx(expected, rel=0.05)
        assert float(second) == pytest.approx(float(first), rel=0.05)
