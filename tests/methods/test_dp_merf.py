"""DP-MERF: what is released, how far one unit can move it, and what comes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.methods.bench import CLASSES, SCHEMA, Bench, facts_of, plan_for, stripes
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.methods.config import build_config, resolve_config
from understudy.methods.dp_merf import (
    RELEASE,
    DPMerf,
    MerfConfig,
    Targets,
    conditional,
    embedding_distance,
    make_features,
)
from understudy.methods.registry import get_method
from understudy.nets.fourier import FourierFeatures
from understudy.privacy.door.batch import Batch
from understudy.privacy.plan.mechanisms import NoisySum
from understudy.privacy.sums.clipping import Blocks

SMALL = MerfConfig(
    features=200, features_per_step=100, steps=60, batch=30, latent=4, width=32, average=0.9
)
CPU = torch.device("cpu")


def map_of(config: MerfConfig, records: Records) -> FourierFeatures:
    channels, height, width = records.shape
    return make_features(config, (channels, height, width), 0, CPU)


def exact_sum(features: FourierFeatures, records: Records) -> torch.Tensor:
    """The sum without noise, written out record by record."""
    total = torch.zeros(len(CLASSES), features.width, dtype=torch.float64)
    for image, label in zip(records.features, records.labels, strict=True):
        total[label] += features(torch.from_numpy(image).float().div(255).unsqueeze(0))[0].double()
    return total.flatten()


class TestRelease:
    """The one release is the exact sum plus noise of the planned scale, no less, no more."""

    @pytest.fixture
    def released(self, tmp_path: Path) -> tuple[torch.Tensor, torch.Tensor]:
        records, sigma = stripes(50), 2.0
        config = replace(SMALL, features=6000)
        features = map_of(config, records)
        plan = plan_for(DPMerf(), config, facts_of(records), sigma)
        bench = Bench(tmp_path, plan)
        private = bench.door.handles({"train": records}, {"train": 50})["train"]
        noisy = private.noisy_sum(conditional(features, len(CLASSES)), clip=1.0, sigma=sigma)
        bench.close()
        return noisy.double(), exact_sum(features, records)

    def test_noise_has_the_planned_scale(self, released: tuple[torch.Tensor, torch.Tensor]) -> None:
        noise = released[0] - released[1]
        # 18,003 values: the estimate of the scale is within 3% at six standard errors.
        assert abs(float(noise.std()) / 2.0 - 1) < 0.03
        assert abs(float(noise.mean())) < 6 * 2.0 / len(noise) ** 0.5

    def test_a_wrong_scale_would_be_noticed(
        self, released: tuple[torch.Tensor, torch.Tensor]
    ) -> None:
        noise = released[0] - released[1]
        for wrong in (1.8, 2.2):
            assert abs(float(noise.std()) / wrong - 1) > 0.03

    def test_what_is_planned_is_one_gaussian_with_clip_one(self) -> None:
        planned = DPMerf().spend(SMALL, facts_of(stripes(9)))(3.0)
        assert list(planned) == [NoisySum(RELEASE, clip=1.0, sigma=3.0)]

    def test_a_restart_gives_the_same_release_back(self, tmp_path: Path) -> None:
        records = stripes(40)
        plan = plan_for(DPMerf(), SMALL, facts_of(records))
        first = Bench(tmp_path, plan)
        before = first.fit(DPMerf(), SMALL, records).sample(20)
        first.close()
        second = Bench(tmp_path, plan)
        after = second.fit(DPMerf(), SMALL, records).sample(20)
        assert second.journal.spent(RELEASE) == 1
        second.close()
        assert (before.features == after.features).all()


def contribution(
    features: FourierFeatures, features_of: torch.Tensor, labels: torch.Tensor
) -> float:
    """The longest vector of these rows, as the door would get it."""
    vectors = conditional(features, len(CLASSES))(
        Batch(features_of, {"label": labels}, {}, "label")
    )
    dense = vectors.dense() if isinstance(vectors, Blocks) else vectors
    return float(torch.linalg.vector_norm(dense.double(), dim=1).max())


class TestSensitivity:
    """Adding or removing one unit moves the sum by at most 1, whatever the unit holds."""

    @pytest.mark.parametrize(
        "image",
        [torch.zeros(1, 8, 8), torch.ones(1, 8, 8), torch.eye(8).unsqueeze(0)],
        ids=["black", "saturated", "diagonal"],
    )
    @pytest.mark.parametrize("mass", [0.0, 0.02, 0.5])
    def test_the_vector_of_a_record_has_norm_one(self, image: torch.Tensor, mass: float) -> None:
        features = map_of(replace(SMALL, mass=mass), stripes(1))
        norm = contribution(features, image.unsqueeze(0), torch.tensor([1]))
        assert norm == pytest.approx(1.0, abs=1e-5)

    def test_soft_labels_are_no_longer(self) -> None:
        features = map_of(SMALL, stripes(1))
        soft = torch.tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
        assert contribution(features, torch.rand(2, 1, 8, 8), soft) <= 1 + 1e-5
        assert contribution(features, torch.rand(2, 1, 8, 8)[:1], soft[:1]) < 0.7

    def difference(self, tmp_path: Path, records: Records, neighbour: Records) -> float:
        """How far the released sums lie apart when the noise is too small to matter."""
        shape = (1, 1, records.shape[-1]) if len(records.shape) == 1 else records.shape
        features = make_features(SMALL, (shape[0], shape[1], shape[2]), 0, CPU)
        sums = []
        for name, some in (("with", records), ("without", neighbour)):
            plan = plan_for(DPMerf(), SMALL, facts_of(stripes(5)), sigma=1e-9)
            bench = Bench(tmp_path / name, plan)
            private = bench.door.handles({"train": some}, {"train": 5})["train"]
            sums.append(private.noisy_sum(conditional(features, 3), clip=1.0, sigma=1e-9).double())
            bench.close()
        return float(torch.linalg.vector_norm(sums[0] - sums[1]))

    def test_one_record_moves_the_sum_by_its_norm(self, tmp_path: Path) -> None:
        records = stripes(5)
        moved = self.difference(tmp_path, records, records.select(np.arange(4)))
        assert moved == pytest.approx(1.0, abs=1e-4)

    def test_a_unit_with_many_records_moves_it_no_further(self, tmp_path: Path) -> None:
        base = stripes(9)
        same = np.repeat(base.features[:1], 9, axis=0)
        units = np.array(["a"] * 6 + ["b", "c", "d"])
        records = Records(same, {"label": np.zeros(9, dtype=np.int64)}, SCHEMA, units)
        moved = self.difference(tmp_path, records, records.select(np.arange(6, 9)))
        assert moved == pytest.approx(1.0, abs=1e-4)

    @pytest.mark.parametrize("poison", [np.nan, np.inf, 1e30])
    def test_hostile_latents_move_it_no_further(self, tmp_path: Path, poison: float) -> None:
        latents = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
        latents[4, 3] = poison
        records = Records(latents, {"label": np.zeros(5, dtype=np.int64)}, SCHEMA)
        moved = self.difference(tmp_path, records, records.select(np.arange(4)))
        assert moved <= 1 + 1e-4

    def test_labels_that_are_no_probabilities_move_it_no_further(self, tmp_path: Path) -> None:
        base = stripes(5)
        even = np.full((5, 3), 1 / 3, dtype=np.float32)
        records = Records(base.features, {"label": even}, SCHEMA)
        neighbour = records.select(np.arange(4))
        for some in (records, neighbour):  # past their check: the clip must hold all the same
            some.attributes["label"][:] = 50.0
        moved = self.difference(tmp_path, records, neighbour)
        assert moved == pytest.approx(1.0, abs=1e-4)


class TestTargets:
    def test_only_the_declared_count_divides(self) -> None:
        records = stripes(60)
        features = map_of(SMALL, records)
        total = exact_sum(features, records).float()
        as_declared = Targets.read(total, features, 3, 60)
        as_half = Targets.read(total, features, 3, 30)
        assert torch.allclose(as_half.waves, 2 * as_declared.waves)

    def test_the_share_of_a_class_is_read_from_the_release(self) -> None:
        records = stripes(60)
        features = map_of(SMALL, records)
        targets = Targets.read(exact_sum(features, records).float(), features, 3, 60)
        expected = torch.from_numpy(np.bincount(records.labels, minlength=3) / 20).float()
        assert torch.allclose(targets.share, expected, atol=1e-4)

    def test_without_mass_classes_count_alike(self) -> None:
        features = map_of(replace(SMALL, mass=0.0), stripes(1))
        targets = Targets.read(torch.zeros(3 * features.width), features, 3, 60)
        assert targets.share.tolist() == [1.0, 1.0, 1.0]

    def test_the_distance_is_least_for_the_images_that_made_the_target(self) -> None:
        images = torch.rand(12, 1, 8, 8)
        features = map_of(replace(SMALL, mass=0.0), stripes(1))
        means = features(images).reshape(3, 4, -1).mean(dim=1)
        targets = Targets(means[:, 1:] / features.scale, torch.ones(3))
        everything = slice(None)
        near = embedding_distance(images, features.frequencies, targets, everything)
        far = embedding_distance(1 - images, features.frequencies, targets, everything)
        assert float(near) < float(far)


class TestFit:
    def test_it_learns_what_tells_the_classes_apart(self, tmp_path: Path) -> None:
        records = stripes(300)
        config = replace(SMALL, features=1000, features_per_step=0, steps=150, batch=60)
        bench = Bench(tmp_path, plan_for(DPMerf(), config, facts_of(records), sigma=0.5))
        made = bench.fit(DPMerf(), config, records).sample(90)
        bench.close()
        means = np.stack([records.features[records.labels == c].mean(axis=0) for c in range(3)])
        apart = [
            np.abs(means - image).mean(axis=(1, 2, 3)) for image in made.features.astype(float)
        ]
        assert (np.argmin(apart, axis=1) == made.labels).mean() > 0.9

    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("generator", ["spline", "merf"])
    def test_both_generators_and_colours(
        self, tmp_path: Path, channels: int, generator: str
    ) -> None:
        records = stripes(30, channels=channels, size=12)
        config = replace(SMALL, steps=3, generator=generator)
        bench = Bench(tmp_path, plan_for(DPMerf(), config, facts_of(records)))
        made = bench.fit(DPMerf(), config, records).sample(7)
        bench.close()
        assert made.features.shape == (7, channels, 12, 12)

    def test_soft_labels_are_learnt_from(self, tmp_path: Path) -> None:
        base = stripes(30)
        soft = np.eye(3, dtype=np.float32)[base.labels]
        records = Records(base.features, {"label": soft}, SCHEMA)
        bench = Bench(tmp_path, plan_for(DPMerf(), SMALL, facts_of(records)))
        assert len(bench.fit(DPMerf(), SMALL, records).sample(5)) == 5
        bench.close()


class TestSettings:
    def test_kernels_must_be_described_whole(self) -> None:
        with pytest.raises(UserError, match="'bandwidths', 'blurs' and 'windows'"):
            build_config(MerfConfig, {"bandwidths": "0.1,0.2"})

    def test_records_that_are_no_images_are_refused(self) -> None:
        records = Records(
            np.zeros((4, 5), dtype=np.float32), {"label": np.zeros(4, dtype=np.int64)}, SCHEMA
        )
        with pytest.raises(UserError, match="dp-merf takes images"):
            DPMerf().spend(SMALL, facts_of(records))

    @pytest.mark.parametrize("dataset", [None, "digits", "mnist", "fashion-mnist", "portraits"])
    def test_presets_are_settings(self, dataset: str | None) -> None:
        resolved = resolve_config(get_method("dp-merf"), dataset, 1.0)
        assert isinstance(resolved.config, MerfConfig)
        assert resolved.tuned_on
