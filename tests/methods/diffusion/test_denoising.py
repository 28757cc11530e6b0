"""EDM's scaling: unit variance in and out, the published loss, the published levels."""

from __future__ import annotations

import math

import pytest
import torch

from understudy.methods.diffusion.denoising import NoiseLevels, Preconditioning

SCALING = Preconditioning(0.5)
LABELS = torch.zeros(4, dtype=torch.int64)


def constant(value: float):  # type: ignore[no-untyped-def]
    def network(images: torch.Tensor, level: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        del level, labels
        return torch.full_like(images, value)

    return network


def test_the_loss_is_edms_weighted_error() -> None:
    random = torch.Generator().manual_seed(0)
    images = torch.rand(4, 1, 3, 3, generator=random) * 2 - 1
    noise = torch.randn(4, 1, 3, 3, generator=random)
    levels = torch.tensor([0.01, 0.3, 2.0, 40.0])
    network = constant(0.7)
    found = SCALING.losses(network, images, noise, levels, LABELS)
    noisy = images + noise * levels.reshape(-1, 1, 1, 1)
    clean = SCALING.denoised(network, noisy, levels, LABELS)
    weight = (levels**2 + 0.25) / (levels * 0.5) ** 2
    expected = weight * (clean - images).square().mean(dim=(1, 2, 3))
    assert torch.allclose(found, expected, rtol=1e-3)


def test_inputs_and_targets_have_unit_variance() -> None:
    random = torch.Generator().manual_seed(1)
    images = 0.5 * torch.randn(4, 1, 90, 90, generator=random)
    noise = torch.randn(4, 1, 90, 90, generator=random)
    levels = torch.tensor([0.01, 0.3, 2.0, 40.0])
    seen: list[torch.Tensor] = []

    def watch(given: torch.Tensor, level: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        del labels
        seen.append(given)
        assert torch.allclose(level, levels.log() / 4)
        return torch.zeros_like(given)

    # A network that says zero has the target's own variance as its loss.
    targets = SCALING.losses(watch, images, noise, levels, LABELS)
    assert torch.allclose(targets, torch.ones(4), atol=0.08)
    assert torch.allclose(seen[0].flatten(1).var(dim=1), torch.ones(4), atol=0.08)


def test_almost_clean_images_are_left_alone_and_pure_noise_is_not() -> None:
    noisy = torch.full((2, 1, 2, 2), 0.8)
    levels = torch.tensor([1e-4, 1e4])
    clean = SCALING.denoised(constant(0.0), noisy, levels, LABELS[:2])
    assert torch.allclose(clean[0], noisy[0], atol=1e-4)
    assert clean[1].abs().max() < 1e-4


@pytest.mark.parametrize(
    ("levels", "values", "expected"),
    [
        (NoiseLevels("log-normal", -1.2, 1.2), [0.0, 1.0], [math.exp(-1.2), 1.0]),
        (NoiseLevels("log-uniform", -2.0, 2.0), [0.0, 1.0], [math.exp(-2), math.exp(2)]),
    ],
)
def test_levels_follow_their_distribution(
    levels: NoiseLevels, values: list[float], expected: list[float]
) -> None:
    assert levels.of(torch.tensor(values)).tolist() == pytest.approx(expected)


def test_the_name_of_a_draw_says_how_it_is_distributed() -> None:
    assert not NoiseLevels("log-normal", 0, 1).draw.startswith("uniform")
    assert NoiseLevels("log-uniform", 0, 1).draw.startswith("uniform")
