"""Central images as a denoiser sees them: moved a little, and some of them as shapes."""

from __future__ import annotations

import pytest
import torch

from understudy.methods.diffusion.central_views import as_shapes, moved


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def blurred_disc(ground: float = 0.0, channels: int = 1, many: int = 200) -> torch.Tensor:
    """Falls slowly from the middle to the ground: as the mean of many discs would."""
    side = torch.linspace(-1, 1, 28)
    height = (1 - (side[:, None] ** 2 + side[None] ** 2).sqrt()).clamp(min=0)
    return (ground + 0.5 * height).expand(many, channels, 28, 28)


def test_images_move_a_little() -> None:
    images = torch.zeros(200, 1, 9, 9)
    images[:, :, 4, 4] = 1.0
    where = moved(images, seeded()).flatten(1).argmax(dim=1)
    assert len(where.unique()) > 1
    across, down = where % 9, where // 9
    assert int((across - 4).abs().max()) <= 1
    assert int((down - 4).abs().max()) <= 1


def test_a_share_of_them_become_shapes() -> None:
    images = blurred_disc(many=1000)
    found = as_shapes(images, 0.7, 0.0, seeded())
    same = (found == images).flatten(1).all(dim=1)
    assert float(same.float().mean()) == pytest.approx(0.3, abs=0.05)
    assert as_shapes(images, 0.0, 0.0, seeded()) is images


@pytest.mark.parametrize(("ground", "channels"), [(0.0, 1), (0.5, 3)])
def test_a_shape_has_a_sharp_edge_where_the_mean_has_none(ground: float, channels: int) -> None:
    images = blurred_disc(ground, channels)
    shapes = as_shapes(images, 1.0, ground, seeded())
    assert shapes.shape == images.shape
    assert float(shapes.min()) >= 0
    assert float(shapes.max()) <= 1
    assert _steepest(shapes) > 3 * _steepest(images)
    corners = (shapes[..., :3, :3] - ground).abs()
    assert float(corners.max()) < 0.25, "what is far below the cut stays ground"


def test_shapes_differ_in_size_and_brightness_and_by_the_seed_alone() -> None:
    images = blurred_disc()
    shapes = as_shapes(images, 1.0, 0.0, seeded())
    assert float((shapes > 0.1).float().mean(dim=(1, 2, 3)).std()) > 0.03
    assert float(shapes.amax(dim=(1, 2, 3)).std()) > 0.1
    assert torch.equal(shapes, as_shapes(images, 1.0, 0.0, seeded()))
    assert not torch.equal(shapes, as_shapes(images, 1.0, 0.0, seeded(1)))


def _steepest(images: torch.Tensor) -> float:
    return float(images.diff(dim=3).abs().amax(dim=(1, 2, 3)).mean())
