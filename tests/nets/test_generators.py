"""Generators: every size and colour, values in range, rebuilt from their description."""

from __future__ import annotations

import json

import pytest
import torch

from understudy.errors import UserError
from understudy.nets.generators import KINDS, GeneratorSpec
from understudy.nets.seeding import built, derived_seed, stream
from understudy.nets.sizes import halvings, image_shape

SHAPES = [(1, 8, 8), (3, 13, 9), (1, 28, 28), (3, 64, 64)]


def spec(kind: str, shape: tuple[int, int, int]) -> GeneratorSpec:
    return GeneratorSpec(kind, shape, classes=3, latent=4, width=8, grid=6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_images_have_the_shape_and_range(kind: str, shape: tuple[int, int, int]) -> None:
    generator = built(spec(kind, shape).build, 0, "test")
    with torch.no_grad():
        images = generator(torch.randn(5, 4), torch.eye(3)[[0, 1, 2, 0, 1]])
    assert images.shape == (5, *shape)
    assert 0 <= float(images.min()) < float(images.max()) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_in_use_a_row_does_not_depend_on_its_company(kind: str) -> None:
    generator = built(spec(kind, (1, 8, 8)).build, 0, "test").eval()
    latents, classes = torch.randn(4, 4), torch.eye(3)[[0, 1, 2, 0]]
    together, alone = generator(latents, classes), generator(latents[1:2], classes[1:2])
    assert torch.allclose(together[1:2], alone, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_class_and_latents_both_matter(kind: str) -> None:
    generator = built(spec(kind, (1, 8, 8)).build, 0, "test").eval()
    latents, eye = torch.randn(2, 4), torch.eye(3)
    base = generator(latents[:1], eye[:1])
    assert not torch.equal(base, generator(latents[1:], eye[:1]))
    assert not torch.equal(base, generator(latents[:1], eye[1:2]))


def test_a_description_survives_json() -> None:
    before = spec("spline", (1, 28, 28))
    assert GeneratorSpec.from_json(json.loads(json.dumps(before.to_json()))) == before


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(UserError, match="did you mean spline"):
        spec("splines", (1, 8, 8)).build()


def test_the_spline_generator_is_smooth() -> None:
    """Neighbouring pixels differ less than with a grid as fine as the image."""
    coarse = GeneratorSpec("spline", (1, 32, 32), 3, 4, 64, grid=8)
    fine = GeneratorSpec("spline", (1, 32, 32), 3, 4, 64, grid=32)
    roughness = []
    for one in (coarse, fine):
        generator = built(one.build, 0, "test")
        images = generator(torch.randn(8, 4), torch.eye(3)[torch.arange(8) % 3]).detach()
        roughness.append(float(images.diff(dim=-1).abs().mean()))
    assert roughness[0] < roughness[1] / 2


class TestSeeding:
    def test_weights_come_from_the_seed_and_the_purpose(self) -> None:
        def weights(seed: int, purpose: str) -> torch.Tensor:
            module = built(spec("spline", (1, 8, 8)).build, seed, purpose)
            return torch.cat([p.flatten() for p in module.parameters()])

        assert torch.equal(weights(1, "a"), weights(1, "a"))
        assert not torch.equal(weights(1, "a"), weights(2, "a"))
        assert not torch.equal(weights(1, "a"), weights(1, "b"))

    def test_the_process_generator_is_left_as_it_was(self) -> None:
        before = torch.get_rng_state()
        built(spec("merf", (1, 8, 8)).build, 0, "test")
        stream(0, "test")
        assert torch.equal(before, torch.get_rng_state())

    def test_purposes_do_not_run_into_each_other(self) -> None:
        assert derived_seed(1, "a", 23) != derived_seed(1, "a", 2, 3)
        assert derived_seed(1, "a", 23) != derived_seed(1, "a2", 3)


class TestSizes:
    @pytest.mark.parametrize("shape", [(8, 8), (2, 8, 8), (1, 7, 8), (3, 64, 65), (64,)])
    def test_what_the_networks_cannot_take_is_refused(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(UserError, match="dp-x takes images of 1 or 3 channels"):
            image_shape(shape, "dp-x")

    def test_halving_rounds_up_and_stops_when_small(self) -> None:
        assert halvings(13, 9) == [(13, 9), (7, 5)]
        assert halvings(8, 8)[-1] == (4, 4)
