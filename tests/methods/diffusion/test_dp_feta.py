"""DP-FETA: central images that cost what they are charged, and nothing but noise divides them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.methods.bench import Bench, facts_of, plan_for, stripes
from tests.methods.diffusion.small import FETA, batch_of
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.methods.config import build_config
from understudy.methods.diffusion import central_warm_up
from understudy.methods.diffusion.central_axes import CentralAxes
from understudy.methods.diffusion.central_images import (
    CentralImages,
    CentralSettings,
    vectors_of,
)
from understudy.methods.diffusion.central_warm_up import AXES, CENTRAL, drawn_along, picked
from understudy.methods.diffusion.dp_feta import DPFeta
from understudy.methods.diffusion.feta_settings import FetaConfig
from understudy.methods.diffusion.planning import TRAINING
from understudy.privacy.accounting.accountants import price
from understudy.privacy.plan.mechanisms import DPSGD, NoisySum
from understudy.privacy.plan.plan import Budget
from understudy.privacy.sums.clipping import Blocks

SETTINGS = CentralSettings(
    shape=(1, 8, 8), classes=3, side=4, clip=0.5, mass=0.1, ground=0.0, cells=4, seed=0
)


def dense(settings: CentralSettings, records: Records, soft: bool = False) -> torch.Tensor:
    found = vectors_of(settings)(batch_of(records, soft))
    return found.dense() if isinstance(found, Blocks) else found


class TestVectors:
    @pytest.mark.parametrize("soft", [False, True])
    @pytest.mark.parametrize("clip", [0.05, 0.5, 50.0])
    def test_no_record_is_longer_than_the_clip(self, clip: float, soft: bool) -> None:
        vectors = dense(replace(SETTINGS, clip=clip), stripes(50), soft)
        norms = torch.linalg.vector_norm(vectors, dim=1)
        assert float(norms.max()) <= clip * (1 + 1e-5), "moved too far"

    def test_a_record_stands_in_the_block_of_its_class_alone(self) -> None:
        records = stripes(30)
        blocks = dense(SETTINGS, records).reshape(30, 3, SETTINGS.cells, SETTINGS.width)
        filled = blocks[..., 0] != 0
        assert filled.sum(dim=(1, 2)).tolist() == [1] * 30
        assert filled.any(dim=2).int().argmax(dim=1).tolist() == records.labels.tolist()

    def test_every_record_counts_the_same_however_bright(self) -> None:
        mass = dense(SETTINGS, stripes(30)).reshape(30, -1, SETTINGS.width)[..., 0].sum(dim=1)
        assert torch.allclose(mass, torch.full((30,), SETTINGS.unit_mass))

    def test_cells_are_public_functions_of_a_record(self) -> None:
        records = stripes(30)
        assert torch.equal(dense(SETTINGS, records), dense(SETTINGS, records))
        other = dense(replace(SETTINGS, seed=1), records)
        assert not torch.equal(dense(SETTINGS, records), other)
        alone = dense(SETTINGS, records.select([3]))
        assert torch.allclose(alone[0], dense(SETTINGS, records)[3])


class TestMeans:
    def test_without_noise_they_are_the_means(self) -> None:
        records = stripes(60)
        settings = replace(SETTINGS, clip=50.0, cells=1)
        central = CentralImages.read(dense(settings, records).sum(dim=0), settings, 60, 0.0)
        pooled = torch.nn.functional.adaptive_avg_pool2d(batch_of(records).features, 4)
        for label in range(3):
            mean = pooled[torch.from_numpy(records.labels == label)].mean(dim=0)
            large = torch.nn.functional.interpolate(mean[None], (8, 8), mode="bilinear")[0]
            assert torch.allclose(central.images[label], large, atol=1e-5)
        assert central.labels.tolist() == [0, 1, 2]
        assert central.images.shape == (3, 1, 8, 8)

    def test_a_block_is_never_divided_by_less_than_declared_counts_allow(self) -> None:
        """Else a class of few records would show its noise, or one of them, at full size."""
        settings = replace(SETTINGS, cells=1, ground=0.0)
        noisy = torch.zeros(3, settings.width)
        noisy[:, 0] = torch.tensor([1e-3, -5.0, 40.0]) * settings.unit_mass
        noisy[:, 1:] = 1.0
        central = CentralImages.read(noisy.flatten(), settings, 60, 0.0)
        few, negative, many = (float(image.max()) for image in central.images)
        assert few == pytest.approx(1 / 10), "divided by a count that is not declared"
        assert negative == pytest.approx(1 / 10)
        assert many == pytest.approx(1 / 40)
        assert (central.weights > 0).all()

    def test_cells_without_noise_are_the_means_of_their_records(self) -> None:
        records = stripes(60)
        settings = replace(SETTINGS, clip=50.0, cells=2)
        sums = dense(settings, records).sum(dim=0)
        central = CentralImages.read(sums, settings, 6, 0.0)
        blocks = sums.reshape(6, settings.width)
        for image, block in zip(central.images, blocks, strict=True):
            if float(block[0]) == 0:
                continue
            mean = (block[1:] / (block[0] / settings.unit_mass)).reshape(1, 1, 4, 4)
            large = torch.nn.functional.interpolate(mean, (8, 8), mode="bilinear")[0]
            assert torch.allclose(image, large, atol=1e-4)

    def test_what_is_noise_of_a_cell_is_not_believed(self) -> None:
        """Cells that differ by noise alone become their class; those far apart stay."""
        settings = replace(SETTINGS, side=8, cells=2, classes=1)
        random, noise = torch.Generator().manual_seed(0), 30.0
        blocks = torch.zeros(2, settings.width)
        blocks[:, 0] = 1000 * settings.unit_mass
        blocks[:, 1:] = 500 + noise * torch.randn(2, settings.width - 1, generator=random)
        alike = CentralImages.read(blocks.flatten(), settings, 2000, noise).images
        assert float((alike[0] - alike[1]).std()) < 0.01, "noise is shown as an image"
        blocks[0, 1:] -= 300 * torch.ones(settings.width - 1)
        apart = CentralImages.read(blocks.flatten(), settings, 2000, noise).images
        assert float((apart[1] - apart[0]).mean()) == pytest.approx(0.3, abs=0.02)

    def test_a_cell_is_never_divided_by_less_than_declared_counts_allow(self) -> None:
        settings = replace(SETTINGS, cells=2, classes=1)
        blocks = torch.zeros(2, settings.width)
        blocks[:, 0] = torch.tensor([0.0, 100.0]) * settings.unit_mass
        blocks[0, 1:] = 5.0
        empty, _ = CentralImages.read(blocks.flatten(), settings, 100, 0.0).images
        assert float(empty.max()) <= 5 / 100 + 5 / 25 + 1e-6, "an empty cell at full size"

    def test_their_ground_is_added_back(self) -> None:
        settings = replace(SETTINGS, ground=0.5, cells=1)
        central = CentralImages.read(torch.zeros(3 * settings.width), settings, 60, 0.0)
        assert torch.allclose(central.images, torch.full_like(central.images, 0.5))


class TestPlan:
    def test_both_mechanisms_stand_in_the_plan(self) -> None:
        planned = DPFeta().spend(FETA, facts_of(stripes(20), count=40))(2.0)
        assert [type(m) for m in planned] == [NoisySum, DPSGD], "something is not charged"
        central = planned[0]
        assert isinstance(central, NoisySum)
        assert (central.name, central.clip) == (CENTRAL, FETA.central_clip)
        assert central.sigma == pytest.approx(2.0 / (0.25 * math.sqrt(0.03 * 4)))

    def test_axes_stand_in_the_plan_where_they_are_asked_for(self) -> None:
        config = replace(FETA, central_axes_share=0.12, central_axes_clip=1.5)
        planned = DPFeta().spend(config, facts_of(stripes(20), count=40))(2.0)
        assert [m.name for m in planned] == [CENTRAL, AXES, TRAINING], "axes are not charged"
        axes = planned[1]
        assert isinstance(axes, NoisySum)
        assert axes.clip == 1.5**2
        assert axes.sigma == pytest.approx(planned[0].sigma / 2)

    def test_axes_that_cannot_be_told_are_refused_before_anything_is_read(self) -> None:
        config = replace(FETA, central_axes_share=0.1, central_axes_side=64)
        facts = replace(facts_of(stripes(20)), shape=(3, 64, 64))
        with pytest.raises(UserError, match="'central_axes_side' 64 makes 12288 waves"):
            DPFeta().spend(config, facts)

    def test_without_steps_the_sums_have_the_whole_budget(self) -> None:
        config = replace(FETA, steps=0, central_share=0.3, central_axes_share=0.7)
        spend = DPFeta().spend(config, facts_of(stripes(20), count=8000))
        plan = Budget(1.0, 1e-5).calibrate(spend)
        assert [m.name for m in plan.mechanisms] == [CENTRAL, AXES]
        assert 0.99 <= price(plan.events(), 1e-5).epsilon <= 1.0
        images, axes = plan.mechanisms
        assert isinstance(images, NoisySum)
        assert isinstance(axes, NoisySum)
        assert (images.sigma / axes.sigma) ** 2 == pytest.approx(0.7 / 0.3)

    def test_they_are_calibrated_together_and_the_share_is_about_right(self) -> None:
        config = replace(FETA, steps=500, batch=400, central_share=0.05)
        spend = DPFeta().spend(config, facts_of(stripes(20), count=8000))
        plan = Budget(1.0, 1e-5).calibrate(spend)
        whole = price(plan.events(), 1e-5).epsilon
        assert 0.99 <= whole <= 1.0, "the plan costs more than its budget"
        steps = price(plan.mechanisms[1].events(500), 1e-5).epsilon
        assert 0.93 < steps / whole < 0.99

    def test_with_axes_the_budget_is_kept_too(self) -> None:
        config = replace(FETA, steps=500, batch=400, central_axes_share=0.05)
        plan = Budget(1.0, 1e-5).calibrate(
            DPFeta().spend(config, facts_of(stripes(20), count=8000))
        )
        assert len(plan.mechanisms) == 3
        assert 0.99 <= price(plan.events(), 1e-5).epsilon <= 1.0

    def test_cells_must_be_a_power_of_two(self) -> None:
        with pytest.raises(UserError, match="'central_cells' must be a power of two"):
            build_config(FetaConfig, {"central_cells": "3"})


class TestFit:
    def test_it_uses_both_as_planned(self, tmp_path: Path) -> None:
        records = stripes(30)
        bench = Bench(tmp_path, plan_for(DPFeta(), FETA, facts_of(records)))
        made = bench.fit(DPFeta(), FETA, records).sample(5)
        assert bench.journal.spent(CENTRAL) == 1
        assert bench.journal.spent(AXES) == 0
        assert bench.journal.spent(TRAINING) == FETA.steps
        assert made.shape == (1, 8, 8)
        bench.close()

    @pytest.mark.parametrize("spread", [False, True])
    def test_without_steps_nothing_but_the_sums_is_spent(
        self, tmp_path: Path, spread: bool
    ) -> None:
        records = stripes(30)
        config = replace(FETA, steps=0, central_axes_share=0.7, central_spread=spread)
        bench = Bench(tmp_path, plan_for(DPFeta(), config, facts_of(records)))
        made = bench.fit(DPFeta(), config, records).sample(5)
        assert (bench.journal.spent(CENTRAL), bench.journal.spent(AXES)) == (1, 1)
        assert bench.journal.spent(TRAINING) == 0
        assert made.shape == (1, 8, 8)
        bench.close()

    @pytest.mark.parametrize("steps", [0, FETA.steps])
    def test_after_a_restart_nothing_is_charged_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
    ) -> None:
        records, config = stripes(30), replace(FETA, central_axes_share=0.05, steps=steps)
        plan = plan_for(DPFeta(), config, facts_of(records))
        place = "understudy.methods.diffusion.central_warm_up.train_on_public"

        def stop(*_: object) -> None:
            raise RuntimeError("stopped")

        first = Bench(tmp_path, plan)
        with monkeypatch.context() as patch:
            patch.setattr(place, stop)
            with pytest.raises(RuntimeError, match="stopped"):
                first.fit(DPFeta(), config, records)
        first.close()
        assert (first.journal.spent(CENTRAL), first.journal.spent(AXES)) == (1, 1)
        second = Bench(tmp_path, plan)
        second.fit(DPFeta(), config, records)
        assert (second.journal.spent(CENTRAL), second.journal.spent(AXES)) == (1, 1)
        assert second.journal.spent(TRAINING) == steps
        second.close()


class TestReleases:
    def test_axes_are_read_from_what_was_released_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Around released means, by the declared count, with the noise that the plan says."""
        records, config = stripes(30), replace(FETA, central_axes_share=0.05)
        plan = plan_for(DPFeta(), config, facts_of(records))
        images = watch(monkeypatch, CentralImages, "read")
        products = watch(monkeypatch, central_warm_up, "products_of")
        axes = watch(monkeypatch, CentralAxes, "read")
        bench = Bench(tmp_path, plan)
        bench.fit(DPFeta(), config, records.select(range(27)), count=30)
        bench.close()
        means = products.given[1]
        assert torch.equal(means, images.got.class_means()), "around means that were not released"
        planned = plan.mechanism(AXES)
        assert isinstance(planned, NoisySum)
        assert axes.given[2:] == [30, planned.clip * planned.sigma]


@dataclass
class Watched:
    """The last call of a function: what it was given, and what it gave."""

    given: list[Any]
    got: Any


def watch(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> Watched:
    real, seen = getattr(owner, name), Watched([], None)

    def watching(*given: Any) -> Any:
        seen.given, seen.got = list(given), real(*given)
        return seen.got

    monkeypatch.setattr(
        owner, name, staticmethod(watching) if isinstance(owner, type) else watching
    )
    return seen


class TestWarmUp:
    def test_classes_come_evenly_and_cells_by_their_counts(self) -> None:
        images = torch.arange(4).reshape(4, 1, 1, 1).float().expand(4, 1, 8, 8) / 4
        central = CentralImages(images, torch.tensor([0, 0, 1, 1]), torch.tensor([9.0, 1, 1, 1]))
        random = torch.Generator().manual_seed(0)
        found, labels = picked(central, FETA)(4000, random)
        assert float((labels == 0).float().mean()) == pytest.approx(0.5, abs=0.05)
        bright = found[labels == 0].mean(dim=(1, 2, 3)) > 0.1
        assert float(bright.float().mean()) == pytest.approx(0.1, abs=0.03)

    def test_with_axes_images_of_a_class_differ_along_them(self) -> None:
        means = torch.tensor([0.3, 0.6]).reshape(2, 1, 1, 1).expand(2, 1, 8, 8)
        pick = drawn_along(means, self.axes(0.1), replace(FETA, central_shapes=0.0))
        found, labels = pick(4000, torch.Generator().manual_seed(0))
        assert float((labels == 0).float().mean()) == pytest.approx(0.5, abs=0.05)
        assert torch.equal(found[labels == 0], means[:1].expand(int((labels == 0).sum()), 1, 8, 8))
        varied = found[labels == 1]
        assert torch.allclose(varied.mean(dim=0), means[1], atol=0.01)
        spread = varied.std(dim=0)[0]
        assert torch.allclose(spread[:, :4], torch.full((8, 4), 0.1), atol=0.01)
        assert float(spread[:, 4:].max()) < 1e-6

    def test_images_drawn_far_along_an_axis_stay_images(self) -> None:
        means = torch.full((2, 1, 8, 8), 0.5)
        pick = drawn_along(means, self.axes(9.0), replace(FETA, central_shapes=0.0))
        found, _ = pick(200, torch.Generator().manual_seed(0))
        assert (float(found.min()), float(found.max())) == (0.0, 1.0)

    def test_images_drawn_along_axes_become_shapes_too(self) -> None:
        means, axes = torch.full((2, 1, 8, 8), 0.5), self.axes(0.1)
        drawn = [
            drawn_along(means, axes, replace(FETA, central_shapes=share))(
                50, torch.Generator().manual_seed(0)
            )[0]
            for share in (0.0, 1.0)
        ]
        assert drawn[0].shape == drawn[1].shape
        assert float((drawn[0] - drawn[1]).abs().mean()) > 0.05

    @staticmethod
    def axes(length: float) -> CentralAxes:
        """None for the first class; for the second one that lights the left half."""
        waves = torch.zeros(1, 64)
        waves.reshape(8, 8)[:, :4] = 1.0
        return CentralAxes(torch.tensor([0.0, length]).reshape(2, 1, 1), waves)
