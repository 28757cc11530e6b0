"""Central axes: products that are bounded, and what of their noisy sum is believed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tests.methods.bench import stripes
from tests.methods.diffusion.small import batch_of
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.methods.diffusion.central_axes import AxesSettings, CentralAxes, products_of
from understudy.methods.diffusion.central_images import CentralImages
from understudy.privacy.door.batch import Batch
from understudy.privacy.sums.clipping import Blocks, ClippedSum

SETTINGS = AxesSettings(shape=(1, 8, 8), classes=3, side=4, clip=0.5, mass=0.1)
WIDE = replace(SETTINGS, clip=1000.0)
WAVES = 16
PAIRS = WAVES * (WAVES + 1) // 2
CPU = torch.device("cpu")
MEANS = torch.tensor([0.2, 0.5, 0.7]).reshape(3, 1, 1, 1).expand(3, 1, 8, 8)


def dense(settings: AxesSettings, batch: Batch) -> torch.Tensor:
    found = products_of(settings, MEANS)(batch)
    return found.dense() if isinstance(found, Blocks) else found


def lists_of(batch: Batch) -> torch.Tensor:
    """Of every record around every class: `[rows, classes, waves]`."""
    apart = batch.features.unsqueeze(1) - MEANS
    return apart.flatten(2) @ SETTINGS.waves().T


def sums(lengths: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """A released sum, without noise: of each class so long along the first wave, by its count."""
    blocks = torch.zeros(3, 1 + PAIRS)
    blocks[:, 0] = counts * WIDE.unit_mass
    blocks[:, 1] = lengths * counts
    return blocks


def noise_on_products(random: torch.Generator, deviation: float) -> torch.Tensor:
    blocks = deviation * torch.randn(3, 1 + PAIRS, generator=random)
    blocks[:, 0] = 0
    return blocks


def lengths_of(axes: CentralAxes) -> torch.Tensor:
    return axes.coefficients.square().sum(dim=2)


class TestProducts:
    @pytest.mark.parametrize("soft", [False, True])
    @pytest.mark.parametrize("clip", [0.05, 0.5, 50.0])
    def test_no_record_is_longer_than_the_clip(self, clip: float, soft: bool) -> None:
        vectors = dense(replace(SETTINGS, clip=clip), batch_of(stripes(50), soft))
        norms = torch.linalg.vector_norm(vectors, dim=1)
        assert float(norms.max()) <= clip * (1 + 1e-5), "moved too far"

    def test_a_record_that_is_too_long_uses_all_of_the_clip(self) -> None:
        norms = torch.linalg.vector_norm(dense(SETTINGS, batch_of(stripes(50))), dim=1)
        assert torch.allclose(norms, torch.full((50,), SETTINGS.clip), rtol=1e-4)

    def test_they_are_products_of_what_a_record_is_apart_from_its_class(self) -> None:
        batch = batch_of(stripes(30))
        told = lists_of(batch)[torch.arange(30), batch.labels]
        products = dense(WIDE, batch).reshape(30, 3, -1)[torch.arange(30), batch.labels, 1:]
        first, second = torch.triu_indices(WAVES, WAVES)
        once = torch.where(first == second, 1.0, math.sqrt(2))
        assert torch.allclose(products, told[:, first] * told[:, second] * once, atol=1e-4)

    def test_probabilities_weigh_the_products_around_every_class(self) -> None:
        batch = batch_of(stripes(30), soft=True)
        told, vectors = lists_of(batch), dense(WIDE, batch).reshape(30, 3, -1)
        lengths = torch.linalg.vector_norm(vectors[..., 1:], dim=2)
        assert torch.allclose(lengths, batch.labels * told.square().sum(dim=2), rtol=1e-4)
        assert torch.allclose(vectors[..., 0], batch.labels * WIDE.unit_mass)

    def test_a_record_stands_in_the_block_of_its_class_alone_and_counts_once(self) -> None:
        records = stripes(30)
        counts = dense(SETTINGS, batch_of(records)).reshape(30, 3, -1)[..., 0]
        assert torch.allclose(counts.sum(dim=1), torch.full((30,), SETTINGS.unit_mass))
        assert counts.argmax(dim=1).tolist() == records.labels.tolist()

    @pytest.mark.parametrize("soft", [False, True])
    def test_a_record_alone_has_the_same_vector(self, soft: bool) -> None:
        records = stripes(30)
        together = dense(SETTINGS, batch_of(records, soft))
        alone = dense(SETTINGS, batch_of(records.select([3]), soft))
        assert torch.allclose(alone[0], together[3], atol=1e-6)


class TestWaves:
    @pytest.mark.parametrize("shape", [(1, 8, 8), (3, 6, 10)])
    @pytest.mark.parametrize("side", [1, 4, 100])
    def test_they_are_orthonormal(self, shape: tuple[int, int, int], side: int) -> None:
        waves = replace(SETTINGS, shape=shape, side=side).waves()
        channels, height, width = shape
        assert waves.shape == (channels * min(side, height) * min(side, width), math.prod(shape))
        assert torch.allclose(waves @ waves.T, torch.eye(len(waves)), atol=1e-5)

    def test_all_of_them_tell_all_of_an_image(self) -> None:
        waves = replace(SETTINGS, side=8).waves()
        image = torch.rand(64, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(waves.T @ (waves @ image), image, atol=1e-5)

    def test_the_first_are_the_slowest(self) -> None:
        first, second = SETTINGS.waves()[:2].reshape(2, 8, 8)
        assert float(first.std()) < 1e-6
        assert int((second[0].sign().diff() != 0).sum()) == 1

    def test_more_than_can_be_told_are_refused(self) -> None:
        with pytest.raises(UserError, match=r"makes 3072 waves .* at most 11\."):
            replace(SETTINGS, shape=(3, 64, 64), side=32)


class TestAxes:
    def test_without_noise_they_are_what_the_records_show(self) -> None:
        records, settings = stripes(60), replace(WIDE, side=8)
        batch = batch_of(records)
        axes = CentralAxes.read(dense(settings, batch).sum(dim=0), settings, 60, 0.0)
        for label in range(3):
            apart = (batch.features - MEANS[label]).flatten(1)[batch.labels == label]
            directions = axes.coefficients[label] @ axes.waves
            shown = directions.T @ directions
            assert torch.allclose(shown, apart.T @ apart / len(apart), atol=1e-3)

    @pytest.mark.parametrize("records", [1, 2, 5])
    def test_units_of_several_records_show_no_more_than_there_is(self, records: int) -> None:
        """The door shortens a unit's vector as a whole: its count as much as its products."""
        settings, batch = replace(SETTINGS, clip=20.0), batch_of(_alike(30))
        vectors = dense(settings, batch)
        total = ClippedSum(settings.clip, vectors.shape[1], CPU, False)
        total.add(vectors, torch.arange(30).numpy() // records)
        axes = CentralAxes.read(total.finish(), settings, 1, 0.0)
        told = lists_of(batch)[torch.arange(30), batch.labels].square().sum(dim=1).mean()
        assert float(lengths_of(axes).sum()) == pytest.approx(float(told), rel=0.02)

    def test_noise_alone_hardly_ever_has_one(self) -> None:
        random, found = torch.Generator().manual_seed(0), 0
        counts = torch.full((3,), 20.0)
        for _ in range(100):
            noisy = sums(torch.zeros(3), counts) + noise_on_products(random, 3.0)
            axes = CentralAxes.read(noisy.flatten(), WIDE, 60, 3.0)
            found += int((lengths_of(axes) > 0).sum())
        assert found <= 12, "noise is shown as an axis"

    def test_what_stands_out_is_found_and_about_as_long_as_it_is(self) -> None:
        random, counts = torch.Generator().manual_seed(0), torch.tensor([20.0, 40.0, 80.0])
        true = 6 * 3.0 * math.sqrt(2 * WAVES) / counts
        noisy = sums(true, counts) + noise_on_products(random, 3.0)
        axes = CentralAxes.read(noisy.flatten(), WIDE, 60, 3.0)
        assert torch.allclose(lengths_of(axes)[:, 0], true, rtol=0.15)
        along = axes.coefficients[:, 0, 0].abs() / lengths_of(axes)[:, 0].sqrt()
        assert float(along.min()) > 0.9

    def test_each_class_has_the_noise_of_its_own_count(self) -> None:
        """The same length is far beyond the edge of a large class, and inside a small one's."""
        length = 3.0 * math.sqrt(2 * WAVES) / 40 * torch.ones(3)
        noisy = sums(length, torch.tensor([20.0, 30.0, 400.0]))
        found = lengths_of(CentralAxes.read(noisy.flatten(), WIDE, 60, 3.0))
        assert (found > 0).sum(dim=1).tolist() == [0, 0, 1]

    def test_a_weak_one_is_shown_shorter_than_it_is_seen(self) -> None:
        """Noise lengthens what stands out little, and turns it; what is left is the best guess."""
        edge = 3.0 * math.sqrt(2 * WAVES) / 20
        noisy = sums(torch.full((3,), 1.5 * edge), torch.full((3,), 20.0))
        lengths = lengths_of(CentralAxes.read(noisy.flatten(), WIDE, 60, 3.0))[:, 0]
        assert torch.allclose(lengths, torch.full((3,), math.sqrt(1.25) * edge), rtol=1e-4)

    def test_a_class_is_never_divided_by_less_than_declared_counts_allow(self) -> None:
        noisy = sums(torch.ones(3), torch.tensor([1.0, -5.0, 40.0]))
        noisy[:, 1] = 40.0
        found = lengths_of(CentralAxes.read(noisy.flatten(), WIDE, 60, 0.0))[:, 0]
        assert torch.allclose(found, torch.tensor([4.0, 4.0, 1.0]), rtol=1e-4), (
            "divided by a count that is not declared"
        )

    def test_draws_along_several_axes_are_independent_and_as_long(self) -> None:
        coefficients = torch.zeros(2, 2, 3)
        coefficients[1, 0, 0], coefficients[1, 1, 2] = 2.0, 0.5
        axes = CentralAxes(coefficients, torch.eye(3))
        labels = torch.arange(2).repeat(5000)
        apart = axes.apart(labels, torch.Generator().manual_seed(0))
        assert torch.equal(apart[labels == 0], torch.zeros(5000, 3))
        spread = torch.cov(apart[labels == 1].T)
        assert torch.allclose(spread, torch.diag(torch.tensor([4.0, 0.0, 0.25])), atol=0.1)

    def test_no_axis_at_all_is_no_difference(self) -> None:
        noisy = sums(torch.zeros(3), torch.ones(3))
        axes = CentralAxes.read(noisy.flatten(), WIDE, 60, 1.0)
        apart = axes.apart(torch.tensor([0, 2]), torch.Generator().manual_seed(0))
        assert torch.equal(apart, torch.zeros(2, 64))


def test_means_of_classes_are_by_the_counts_of_their_cells() -> None:
    images = torch.tensor([0.0, 1.0, 0.5, 0.5]).reshape(4, 1, 1, 1).expand(4, 1, 8, 8)
    central = CentralImages(images, torch.tensor([0, 0, 1, 1]), torch.tensor([3.0, 1, 1, 1]))
    means = central.class_means()
    assert means.shape == (2, 1, 8, 8)
    assert means[:, 0, 0, 0].tolist() == [0.25, 0.5]


def _alike(count: int) -> Records:
    """Records of one class, so that units of several differ in nothing but their number."""
    records = stripes(3 * count + 30)
    first = int(records.labels[0])
    return records.select([n for n, label in enumerate(records.labels) if label == first][:count])
