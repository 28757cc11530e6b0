"""Random Fourier features: norm one, the right kernel, fair shares."""

from __future__ import annotations

import math

import pytest
import torch

from understudy.nets.fourier import Component, FourierFeatures, draw_frequencies
from understudy.nets.seeding import stream

SHAPE = (1, 12, 12)
COMPONENTS = [Component(0.05), Component(0.05, blur=1.0), Component(0.05, window=5)]


def features(component: Component, count: int = 4000, mass: float = 0.0) -> FourierFeatures:
    return FourierFeatures(draw_frequencies([component], count, SHAPE, stream(0, "test")), mass)


@pytest.mark.parametrize("component", COMPONENTS, ids=["whole", "blurred", "window"])
@pytest.mark.parametrize("mass", [0.0, 0.1])
def test_every_finite_row_has_norm_one(component: Component, mass: float) -> None:
    rows = torch.cat([torch.rand(3, *SHAPE), torch.zeros(1, *SHAPE), torch.ones(1, *SHAPE)])
    mapped = features(component, 50, mass)(rows)
    assert torch.allclose(mapped.double().norm(dim=1), torch.ones(5).double(), atol=1e-6)


def test_inner_products_are_the_gaussian_kernel() -> None:
    mapped = features(Component(0.05))
    a, b = torch.rand(1, *SHAPE), torch.rand(1, *SHAPE)
    distance = float((a - b).square().mean())
    expected = math.exp(-distance / (2 * 0.05))
    # 4,000 frequencies: the standard error is at most 1 / sqrt(8000) = 0.011.
    assert float((mapped(a) * mapped(b)).sum()) == pytest.approx(expected, abs=0.06)


def test_a_narrower_kernel_tells_more_apart() -> None:
    a, b = torch.rand(1, *SHAPE), torch.rand(1, *SHAPE)
    near = [
        float((f(a) * f(b)).sum()) for f in (features(Component(0.5)), features(Component(0.05)))
    ]
    assert near[0] > near[1] + 0.2


def test_a_blurred_kernel_overlooks_fine_detail() -> None:
    board = (torch.arange(12)[:, None] + torch.arange(12)) % 2
    a, b = board.float().reshape(1, *SHAPE), (1 - board).float().reshape(1, *SHAPE)
    sharp, blurred = features(Component(0.05)), features(Component(0.05, blur=2.0))
    assert float((blurred(a) * blurred(b)).sum()) > 0.7
    assert float((sharp(a) * sharp(b)).sum()) < 0.2


def test_a_window_sees_its_square_only() -> None:
    drawn = draw_frequencies([Component(0.05, window=5)], 200, SHAPE, stream(0, "test"))
    seen = (drawn != 0).sum(dim=1)
    assert int(seen.max()) <= 25
    assert int(seen.min()) >= 9


def test_the_constant_coordinate_counts_records() -> None:
    mapped = features(Component(0.05), 20, mass=0.04)(torch.rand(7, *SHAPE))
    assert float(mapped[:, 0].sum()) / math.sqrt(0.04) == pytest.approx(7)


def test_components_are_mixed_evenly() -> None:
    drawn = draw_frequencies(
        [Component(0.05), Component(0.05, window=5)], 1000, SHAPE, stream(0, "test")
    )
    windows = (drawn == 0).any(dim=1).float()
    # 500 of each in random order: a half holds 250, standard deviation 11.
    assert abs(float(windows.sum()) - 500) <= 1
    assert abs(float(windows[:500].sum()) - 250) < 70


def test_colour_channels_share_a_window() -> None:
    drawn = draw_frequencies([Component(0.1, window=4)], 10, (3, 8, 8), stream(0, "test"))
    shown = (drawn.reshape(10, 3, 8, 8) != 0).float()
    assert torch.equal(shown[:, 0], shown[:, 1])
