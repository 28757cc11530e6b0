"""Central axes: products that are bounded, and what of their noisy sum is believed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tests.methods.bench import stripes
from tests.methods.diffusion.small import batch_of
from understudy.data.records import Records
from understudy.methods.diffusion.central_axes import AxesSettings, CentralAxes, products_of
from understudy.methods.diffusion.central_images import CentralImages
from understudy.privacy.clipping import Blocks

SETTINGS = AxesSettings(shape=(1, 8, 8), classes=3, side=4, clip=0.5)
WAVES = 16
PAIRS = WAVES * (WAVES + 1) // 2
GREY = torch.full((3, 1, 8, 8), 0.5)


def dense(settings: AxesSettings, records: Records, soft: bool = False) -> torch.Tensor:
    found = products_of(settings, GREY)(batch_of(records, soft))
    return found.dense() if isinstance(found, Blocks) else found


def noise_matrix(random: torch.Generator, deviation: float) -> torch.Tensor:
    return deviation * torch.randn(3 * PAIRS, generator=random)


def spike(length: float) -> torch.Tensor:
    """The sum of products of one list, all of it in the first wave, of this squared length."""
    packed = torch.zeros(3, PAIRS)
    packed[:, 0] = length
    return packed.flatten()


class TestProducts:
    @pytest.mark.parametrize("soft", [False, True])
    @pytest.mark.parametrize("clip", [0.05, 0.5, 50.0])
    def test_no_record_is_longer_than_the_clip_squared(self, clip: float, soft: bool) -> None:
        settings = replace(SETTINGS, clip=clip)
        norms = torch.linalg.vector_norm(dense(settings, stripes(50), soft), dim=1)
        assert float(norms.max()) <= settings.longest * (1 + 1e-5), "moved too far"

    def test_their_length_is_the_square_of_the_list(self) -> None:
        records = stripes(50)
        norms = torch.linalg.vector_norm(dense(replace(SETTINGS, clip=50.0), records), dim=1)
        told = (batch_of(records).features - 0.5).flatten(1) @ SETTINGS.waves().T
        assert torch.allclose(norms, told.square().sum(dim=1), rtol=1e-4)

    def test_a_record_stands_in_the_block_of_its_class_alone(self) -> None:
        records = stripes(30)
        filled = (dense(SETTINGS, records).reshape(30, 3, PAIRS) != 0).any(dim=2)
        assert filled.sum(dim=1).tolist() == [1] * 30
        assert filled.int().argmax(dim=1).tolist() == records.labels.tolist()

    @pytest.mark.parametrize("soft", [False, True])
    def test_a_record_alone_has_the_same_products(self, soft: bool) -> None:
        records = stripes(30)
        together = dense(SETTINGS, records, soft)
        assert torch.allclose(dense(SETTINGS, records.select([3]), soft)[0], together[3], atol=1e-6)


class TestWaves:
    @pytest.mark.parametrize("shape", [(1, 8, 8), (3, 6, 10)])
    @pytest.mark.parametrize("side", [1, 4, 100])
    def test_they_are_orthonormal(self, shape: tuple[int, int, int], side: int) -> None:
        waves = replace(SETTINGS, shape=shape, side=side).waves()
        channels, height, width = shape
        assert waves.shape == (channels * min(side, height) * min(side, width), math.prod(shape))
        assert torch.allclose(waves @ waves.T, torch.eye(len(waves)), atol=1e-5)

    def test_all_of_them_tell_an_image_apart_from_nothing_else(self) -> None:
        waves = replace(SETTINGS, side=8).waves()
        image = torch.rand(64, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(waves.T @ (waves @ image), image, atol=1e-5)


class TestAxes:
    def test_without_noise_they_are_what_the_records_show(self) -> None:
        records, settings = stripes(60), replace(SETTINGS, side=8, clip=50.0)
        counts = torch.bincount(torch.from_numpy(records.labels), minlength=3)
        axes = CentralAxes.read(dense(settings, records).sum(dim=0), settings, counts, 0.0)
        for label in range(3):
            of_class = torch.from_numpy(records.labels == label)
            apart = (batch_of(records).features[of_class] - 0.5).flatten(1)
            directions = axes.directions[label].flatten(1)
            shown = directions.T @ directions
            assert torch.allclose(shown, apart.T @ apart / len(apart), atol=1e-3)

    def test_noise_alone_has_no_axes(self) -> None:
        random, found = torch.Generator().manual_seed(0), 0
        for _ in range(40):
            noisy = noise_matrix(random, 3.0)
            found += (
                CentralAxes.read(noisy, SETTINGS, torch.full((3,), 20), 3.0)
                .directions.ne(0)
                .any(dim=(2, 3, 4))
                .sum()
                .item()
            )
        assert found <= 40 * 3 * WAVES * 0.02, "noise is shown as an axis"

    def test_what_stands_out_is_found_and_as_long_as_it_is(self) -> None:
        random, edge = torch.Generator().manual_seed(0), 3.0 * math.sqrt(2 * WAVES)
        noisy = spike(6 * edge) + noise_matrix(random, 3.0)
        axes = CentralAxes.read(noisy, SETTINGS, torch.full((3,), 20), 3.0)
        first = axes.directions[:, 0].flatten(1)
        lengths = first.square().sum(dim=1)
        assert torch.allclose(lengths, torch.full((3,), 6 * edge / 20), rtol=0.15)
        assert (first @ SETTINGS.waves()[0]).abs().min() > 0.9 * lengths.min().sqrt()

    def test_a_weak_one_is_shown_shorter_than_it_is_seen(self) -> None:
        """Noise lengthens what stands out little, and turns it; what is left is the best guess."""
        edge = 3.0 * math.sqrt(2 * WAVES)
        seen = CentralAxes.read(spike(1.5 * edge), SETTINGS, torch.ones(3), 3.0)
        lengths = seen.directions[:, 0].flatten(1).square().sum(dim=1)
        assert torch.allclose(lengths, torch.full((3,), math.sqrt(1.25) * edge), rtol=1e-4)

    def test_a_class_is_never_divided_by_less_than_declared_counts_allow(self) -> None:
        images = torch.zeros(6, 1, 8, 8)
        weights = torch.tensor([1.0, 1, 3, 4, 20, 30])
        central = CentralImages(images, torch.tensor([0, 0, 1, 1, 2, 2]), weights)
        counts = central.class_counts(60).tolist()
        assert counts == [10, 10, 50], "divided by a count that is not declared"

    def test_means_of_classes_are_by_the_counts_of_their_cells(self) -> None:
        images = torch.tensor([0.0, 1.0, 0.5, 0.5]).reshape(4, 1, 1, 1).expand(4, 1, 8, 8)
        central = CentralImages(images, torch.tensor([0, 0, 1, 1]), torch.tensor([3.0, 1, 1, 1]))
        means = central.class_means()
        assert means.shape == (2, 1, 8, 8)
        assert means[:, 0, 0, 0].tolist() == [0.25, 0.5]

    def test_no_axis_at_all_is_no_difference(self) -> None:
        axes = CentralAxes.read(torch.zeros(3 * PAIRS), SETTINGS, torch.ones(3), 1.0)
        apart = axes.apart(torch.tensor([0, 2]), torch.Generator().manual_seed(0))
        assert torch.equal(apart, torch.zeros(2, 1, 8, 8))
