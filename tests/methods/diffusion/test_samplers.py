"""Samplers, on data whose best denoiser is known: they must come out with its distribution."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from understudy.methods.diffusion.samplers import SamplerSettings, draw_images, guided

MEAN, DEVIATION = 0.4, 0.3
FINE = SamplerSettings(steps=18)


def best(images: torch.Tensor, level: float) -> torch.Tensor:
    """Of records that are normal around MEAN."""
    return MEAN + DEVIATION**2 / (DEVIATION**2 + level**2) * (images - MEAN)


def drawn(settings: SamplerSettings) -> torch.Tensor:
    random = torch.Generator().manual_seed(0)
    noise = torch.randn(40_000, 1, 1, 1, generator=random)
    return draw_images(best, noise, settings, random)


@pytest.mark.parametrize(
    ("settings", "off"),
    [
        (replace(FINE, steps=40), 0.03),
        (replace(FINE, name="ddim", steps=200), 0.03),
        (replace(FINE, name="edm", steps=80, churn=10.0, churn_low=0.02), 0.03),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_images_have_the_distribution_of_the_records(settings: SamplerSettings, off: float) -> None:
    images = drawn(settings)
    assert float(images.mean()) == pytest.approx(MEAN, abs=off * DEVIATION + 0.006)
    assert float(images.std()) == pytest.approx(DEVIATION, rel=off)


@pytest.mark.parametrize(("name", "order"), [("heun", 2), ("ddim", 1)])
def test_errors_shrink_with_the_order_of_the_method(name: str, order: int) -> None:
    few, many = (
        abs(float(drawn(replace(FINE, name=name, steps=steps)).std()) / DEVIATION - 1)
        for steps in (18, 36)
    )
    # Of 40,000 numbers a standard deviation is known to 0.4%.
    assert few / many == pytest.approx(2**order, rel=0.2)


def test_churn_is_fresh_noise_and_belongs_to_edm_alone() -> None:
    churned = replace(FINE, name="edm", churn=20.0)
    assert not torch.allclose(drawn(churned), drawn(FINE), atol=0.05)
    assert torch.equal(drawn(replace(FINE, churn=20.0)), drawn(FINE))
    assert torch.equal(drawn(replace(churned, churn=0.0)), drawn(FINE))
    assert torch.equal(drawn(replace(churned, churn_low=60.0, churn_high=50.0)), drawn(FINE))


@pytest.mark.parametrize("name", ["heun", "ddim", "edm"])
@pytest.mark.parametrize("guidance", [0.0, 0.5])
def test_passes_are_counted_as_they_are_made(name: str, guidance: float) -> None:
    settings = SamplerSettings(name=name, steps=7, guidance=guidance, churn=5.0)
    rows: list[int] = []

    def counting(images: torch.Tensor, level: float, codes: torch.Tensor) -> torch.Tensor:
        assert len(codes) == len(images)
        rows.append(len(images))
        return best(images, level)

    denoise = guided(counting, torch.zeros(2, dtype=torch.int64), 3, guidance)
    steps: list[int] = []
    random = torch.Generator().manual_seed(0)
    draw_images(denoise, torch.zeros(2, 1, 1, 1), settings, random, lambda: steps.append(1))
    assert sum(rows) == 2 * settings.passes
    assert len(steps) == settings.steps


def test_levels_fall_to_zero_between_the_declared_ends() -> None:
    levels = SamplerSettings(steps=5, highest=10.0, lowest=0.1).levels()
    assert levels[0] == pytest.approx(10.0)
    assert levels[-2:] == [pytest.approx(0.1), 0.0]
    assert levels == sorted(levels, reverse=True)
    assert len(SamplerSettings(steps=1).levels()) == 2


def test_guidance_goes_beyond_the_class_and_away_from_no_class() -> None:
    """Class 5 is one too high, no class (7) one too low; both are asked for at once."""
    asked: list[list[int]] = []

    def passes(images: torch.Tensor, level: float, codes: torch.Tensor) -> torch.Tensor:
        del level
        asked.append(codes.tolist())
        return images + torch.where(codes == 7, -1.0, 1.0)

    images, codes = torch.tensor([0.0, 10.0]), torch.tensor([5, 5])
    found = guided(passes, codes, 7, 0.5)(images, 1.0)
    assert found.tolist() == pytest.approx([2.0, 12.0])
    assert guided(passes, codes, 7, 0.0)(images, 1.0).tolist() == pytest.approx([1.0, 11.0])
    assert asked == [[5, 5, 7, 7], [5, 5]]


def test_settings_survive_json() -> None:
    settings = SamplerSettings("edm", 9, guidance=0.3, churn=4.0)
    assert SamplerSettings.from_json(settings.to_json()) == settings
