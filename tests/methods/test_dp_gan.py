"""DP-GAN: both places for fakes train, steps are counted, and labels stay behind the door."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.methods.bench import CLASSES, SCHEMA, Bench, facts_of, plan_for, stripes
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.methods.config import build_config, resolve_config
from understudy.methods.dp_gan import TRAINING, DPGan, GanConfig
from understudy.methods.gan_training import AdversarialPair, class_weights
from understudy.methods.registry import get_method
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.engine import GradientEngine
from understudy.privacy.dpsgd.loss import BoundLoss
from understudy.privacy.dpsgd.models import BoundModels
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD

SMALL = GanConfig(
    steps=6,
    batch=12,
    width=4,
    discriminator_width=4,
    discriminator_features=8,
    generator_batch=8,
    fake_batch=8,
    latent=3,
    steps_per_generator=2,
)
CPU = torch.device("cpu")
MODES = pytest.mark.parametrize("fake", ["inside", "outside"])


def pair_of(config: GanConfig, seed: int = 0) -> AdversarialPair:
    return AdversarialPair(config, (1, 8, 8), len(CLASSES), seed, CPU)


class TestFit:
    @MODES
    def test_it_does_the_planned_steps_and_samples(self, tmp_path: Path, fake: str) -> None:
        records, config = stripes(40), replace(SMALL, fake=fake)
        bench = Bench(tmp_path, plan_for(DPGan(), config, facts_of(records)))
        made = bench.fit(DPGan(), config, records).sample(10)
        assert bench.journal.spent(TRAINING) == config.steps
        assert bench.context.staged == config.steps
        assert made.features.shape == (10, 1, 8, 8)
        bench.close()

    @MODES
    def test_it_learns_what_tells_the_classes_apart(self, tmp_path: Path, fake: str) -> None:
        records = stripes(200)
        config = replace(
            SMALL,
            fake=fake,
            steps=150,
            batch=64,
            width=8,
            discriminator_width=8,
            discriminator_features=32,
            generator_batch=64,
            fake_batch=64,
            latent=8,
            steps_per_generator=1,
            learning_rate=3e-3,
            discriminator_rate=3e-3,
            average=0.9,
        )
        bench = Bench(tmp_path, plan_for(DPGan(), config, facts_of(records), sigma=0.3))
        made = bench.fit(DPGan(), config, records).sample(90)
        bench.close()
        means = np.stack([records.features[records.labels == c].mean(axis=0) for c in range(3)])
        apart = [
            np.abs(means - image).mean(axis=(1, 2, 3)) for image in made.features.astype(float)
        ]
        assert (np.argmin(apart, axis=1) == made.labels).mean() > 0.8

    def test_soft_labels_and_colour_train(self, tmp_path: Path) -> None:
        base = stripes(30, channels=3, size=10)
        soft = np.full((30, 3), 1 / 3, dtype=np.float32)
        records = Records(base.features, {"label": soft}, SCHEMA)
        bench = Bench(tmp_path, plan_for(DPGan(), SMALL, facts_of(records)))
        assert bench.fit(DPGan(), SMALL, records).sample(4).shape == (3, 10, 10)
        bench.close()


class StoppedError(Exception):
    """Stands for whatever ends a process between two steps."""


class TestResume:
    @MODES
    def test_an_interrupted_run_completes_with_the_planned_steps(
        self, tmp_path: Path, fake: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        records, config = stripes(40), replace(SMALL, fake=fake, steps=9)
        plan = plan_for(DPGan(), config, facts_of(records))
        first = Bench(tmp_path, plan)
        monkeypatch.setattr("understudy.methods.dp_gan._speed", lambda *_: Speed(block_steps=2))
        original = AdversarialPair.generator_step

        def stopping(self: AdversarialPair, number: int) -> None:
            if number == 3:
                raise StoppedError
            original(self, number)

        monkeypatch.setattr(AdversarialPair, "generator_step", stopping)
        with pytest.raises(StoppedError):
            first.fit(DPGan(), config, records)
        monkeypatch.setattr(AdversarialPair, "generator_step", original)
        first.close()
        # The sixth step's noise was drawn, so it is spent although its state is lost.
        assert first.journal.spent(TRAINING) == 6

        second = Bench(tmp_path, plan)
        assert second.context.restore() is not None
        assert len(second.fit(DPGan(), config, records).sample(3)) == 3
        assert second.journal.spent(TRAINING) == 9
        assert second.context.staged == 3
        second.close()

    def test_a_pair_goes_on_from_its_snapshot_as_if_it_had_not_stopped(self) -> None:
        through, again = pair_of(SMALL), pair_of(SMALL, seed=0)
        for number in (1, 2):
            self.fake_step(through, number)
        again.load(through.snapshot())
        for pair in (through, again):
            self.fake_step(pair, 3)
        for name, tensor in through.snapshot().tensors.items():
            assert torch.equal(tensor, again.snapshot().tensors[name]), name

    @staticmethod
    def fake_step(pair: AdversarialPair, number: int) -> None:
        parameters = list(pair.discriminator.parameters())
        for parameter, gradient in zip(parameters, pair.fake_gradients(number), strict=True):
            parameter.grad = gradient
        pair.discriminator_optimizer.step()
        pair.generator_step(number)

    def test_a_finished_run_gives_its_synthesizer_again(self, tmp_path: Path) -> None:
        records = stripes(40)
        plan = plan_for(DPGan(), SMALL, facts_of(records))
        made = []
        for _ in range(2):
            bench = Bench(tmp_path, plan)
            made.append(bench.fit(DPGan(), SMALL, records).sample(6).features)
            bench.close()
        assert (made[0] == made[1]).all()


def clipped_sum(config: GanConfig, records: Records, chosen: list[int], rows: int) -> torch.Tensor:
    """The discriminator's clipped sum before noise, in micro-batches of `rows`."""
    pair = pair_of(config)
    engine = GradientEngine(
        BoundModels(pair.models),
        BoundLoss(pair.record_loss),
        pair.draws,
        DPSGD(TRAINING, 1, 0.5, config.clip, 1.0),
        Speed(micro_batch=rows, backend="vmap"),
        records,
        NoiseSource.insecure(0),
        8.0,
    )
    return engine.clipped_sum(np.array(chosen, dtype=np.int64), {}).total


class TestRecordLoss:
    @MODES
    def test_padding_rows_contribute_nothing(self, fake: str) -> None:
        config, records = replace(SMALL, fake=fake, clip=0.05), stripes(8)
        # One record alone in a micro-batch of eight: seven rows are padding.
        alone = clipped_sum(config, records, [2], rows=8)
        assert float(torch.linalg.vector_norm(alone)) <= config.clip
        assert float(torch.linalg.vector_norm(alone)) > 0.9 * config.clip
        assert float(clipped_sum(config, records, [], rows=8).abs().max()) == 0.0

    def test_outside_the_sum_does_not_depend_on_the_padding(self) -> None:
        config, records = replace(SMALL, fake="outside"), stripes(8)
        padded = clipped_sum(config, records, [0, 3, 5], rows=8)
        whole = clipped_sum(config, records, [0, 3, 5], rows=3)
        assert torch.allclose(padded, whole, atol=1e-6)

    def test_inside_holds_one_fake_of_the_records_own_class(self) -> None:
        pair = pair_of(replace(SMALL, fake="inside"))
        seen: list[tuple[torch.Tensor, torch.Tensor]] = []

        def watch(images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
            seen.append((images, classes))
            return pair.discriminator(images, classes)  # type: ignore[no-any-return]

        batch = Batch(
            torch.rand(2, 1, 8, 8),
            {"label": torch.tensor([2, 0])},
            {"latent": torch.randn(2, 3)},
            "label",
        )
        models: Sequence[Callable[..., Any]] = [watch, pair.models[1]]
        assert pair.record_loss(models, batch, {}).shape == (2,)
        (real, labels), (fake, fake_labels) = seen
        assert torch.equal(real, batch.features)
        assert torch.equal(labels, fake_labels)
        assert not fake.requires_grad
        assert fake.shape == real.shape

    def test_outside_meets_no_fake(self) -> None:
        pair = pair_of(replace(SMALL, fake="outside"))
        assert pair.draws == {}
        batch = Batch(torch.rand(2, 1, 8, 8), {"label": torch.tensor([2, 0])}, {}, "label")
        calls = []

        def watch(images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
            calls.append(len(images))
            return pair.discriminator(images, classes)  # type: ignore[no-any-return]

        assert pair.models == [pair.discriminator]
        pair.record_loss([watch], batch, {})
        assert calls == [2]

    def test_private_steps_read_the_generator_as_it_is_now(self) -> None:
        """A copy that they read follows every step of it, and a restart."""
        pair = pair_of(replace(SMALL, fake="inside"))
        shown = pair.models[1]
        for number in (1, 2):
            pair.generator_step(number)
            now = pair.generator.state_dict()
            assert all(torch.equal(now[name], v) for name, v in shown.state_dict().items())
        again = pair_of(replace(SMALL, fake="inside"))
        again.load(pair.snapshot())
        theirs = again.models[1].state_dict()
        assert all(torch.equal(value, theirs[name]) for name, value in now.items())
        assert not any(p.requires_grad for p in shown.parameters())
        assert not shown.training


class TestPostProcessing:
    def test_a_generator_step_reads_the_seed_and_the_discriminator_only(self) -> None:
        """By construction: its only inputs are the pair and the number of the step."""
        one, other = pair_of(SMALL), pair_of(SMALL)
        for pair in (one, other):
            pair.generator_step(1)
        for name, value in one.average.state_dict().items():
            assert torch.equal(value, other.average.state_dict()[name]), name
        before = [p.clone() for p in one.generator.parameters()]
        one.generator_step(2)
        after = list(one.generator.parameters())
        assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
        assert all(p.requires_grad for p in one.discriminator.parameters())

    def test_its_labels_are_uniform(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pair = pair_of(replace(SMALL, generator_batch=3000))
        labels: list[torch.Tensor] = []
        forward = pair.generator.forward

        def watch(latents: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
            labels.append(classes)
            return forward(latents, classes)  # type: ignore[no-any-return]

        monkeypatch.setattr(pair.generator, "forward", watch)
        pair.generator_step(1)
        counts = labels[0].sum(dim=0)
        # 3,000 draws over three classes: 1,000 each, standard deviation 26.
        assert float((counts - 1000).abs().max()) < 6 * 26

    def test_fake_gradients_are_clipped_like_a_records(self) -> None:
        config = replace(SMALL, fake="outside", clip=1e-3)
        gradients = pair_of(config).fake_gradients(0)
        norm = float(torch.linalg.vector_norm(torch.cat([g.flatten() for g in gradients])))
        assert 0 < norm <= config.clip * (1 + 1e-5)

    def test_codes_become_one_hot_and_probabilities_stay(self) -> None:
        assert class_weights(torch.tensor([1]), 3).tolist() == [[0.0, 1.0, 0.0]]
        soft = torch.tensor([[0.5, 0.25, 0.25]])
        assert class_weights(soft, 3) is soft


class TestSettings:
    def test_too_few_records_for_the_plan(self) -> None:
        with pytest.raises(UserError, match=r"'batch' is 12 .* too few records .* at most 9"):
            DPGan().spend(SMALL, facts_of(stripes(9)))

    def test_the_declared_count_sets_the_rate(self) -> None:
        (planned,) = DPGan().spend(SMALL, facts_of(stripes(20), count=48))(2.0)
        assert planned == DPSGD(TRAINING, 6, 0.25, SMALL.clip, 2.0)

    def test_large_images_are_refused(self) -> None:
        records = stripes(3, size=65)
        with pytest.raises(UserError, match="dp-gan takes images"):
            DPGan().spend(SMALL, facts_of(records, count=100))

    def test_an_unknown_place_for_fakes_is_refused(self) -> None:
        with pytest.raises(UserError, match="'fake' must be one of inside, outside"):
            build_config(GanConfig, {"fake": "beside"})

    @pytest.mark.parametrize("dataset", [None, "digits", "mnist", "fashion-mnist", "portraits"])
    def test_presets_are_settings(self, dataset: str | None) -> None:
        resolved = resolve_config(get_method("dp-gan"), dataset, 10.0)
        assert isinstance(resolved.config, GanConfig)
        assert resolved.tuned_on
