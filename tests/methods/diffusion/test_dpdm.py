"""DPDM: the planned steps and no more, resumable, many noises inside one clip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.methods.bench import SCHEMA, Bench, facts_of, plan_for, stripes
from tests.methods.diffusion.small import SMALL, learning, share_like_their_class
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.methods.config import build_config, resolve_config
from understudy.methods.diffusion.denoiser_training import DenoiserTraining
from understudy.methods.diffusion.dpdm import DPDM
from understudy.methods.diffusion.planning import TRAINING, gigabytes_of, private_loops, speed_of
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.methods.diffusion.synthesizer import DiffusionSynthesizer
from understudy.methods.registry import get_method
from understudy.privacy.dpsgd.engine import GradientEngine
from understudy.privacy.dpsgd.loss import BoundLoss
from understudy.privacy.dpsgd.models import BoundModels
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD

DATASETS = (None, "digits", "portraits", "mnist", "fashion-mnist", "cifar-10", "utkface")
METHODS = ("dpdm", "dp-feta", "pdp-diffusion")


class TestFit:
    def test_it_does_the_planned_steps_and_samples(self, tmp_path: Path) -> None:
        records = stripes(30)
        bench = Bench(tmp_path, plan_for(DPDM(), SMALL, facts_of(records)))
        made = bench.fit(DPDM(), SMALL, records).sample(7)
        assert bench.journal.spent(TRAINING) == SMALL.steps
        assert bench.context.staged == SMALL.steps
        assert made.features.shape == (7, 1, 8, 8)
        bench.close()

    def test_it_learns_what_tells_the_classes_apart(self, tmp_path: Path) -> None:
        records = stripes(120)
        config = learning(SMALL)
        bench = Bench(tmp_path, plan_for(DPDM(), config, facts_of(records), sigma=0.02))
        made = bench.fit(DPDM(), config, records).sample(60)
        bench.close()
        assert share_like_their_class(made, records) > 0.8

    def test_the_averaged_weights_are_what_draws(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[DenoiserTraining] = []
        original = DenoiserTraining.advance

        def noted(self: DenoiserTraining, step: int, steps: int, rate: float) -> None:
            original(self, step, steps, rate)
            seen.append(self)

        monkeypatch.setattr(DenoiserTraining, "advance", noted)
        records, config = stripes(30), replace(SMALL, learning_rate=0.1, average=0.9)
        bench = Bench(tmp_path, plan_for(DPDM(), config, facts_of(records)))
        made = bench.fit(DPDM(), config, records)
        bench.close()
        made.save(tmp_path / "made")
        kept = DiffusionSynthesizer.load(tmp_path / "made")
        drawn = [
            torch.cat([p.reshape(-1) for p in n.parameters()])
            for n in (kept._network, seen[-1].average, seen[-1].network)
        ]
        assert torch.equal(drawn[0], drawn[1]), "not the averaged weights"
        assert not torch.allclose(drawn[0], drawn[2])

    def test_soft_labels_and_colour_train(self, tmp_path: Path) -> None:
        base = stripes(20, channels=3, size=10)
        soft = np.full((20, 3), 1 / 3, dtype=np.float32)
        records = Records(base.features, {"label": soft}, SCHEMA)
        config = replace(SMALL, flip=True, levels="log-uniform", level_values=(-3.0, 2.0))
        bench = Bench(tmp_path, plan_for(DPDM(), config, facts_of(records)))
        assert bench.fit(DPDM(), config, records).sample(2).shape == (3, 10, 10)
        bench.close()


class StoppedError(Exception):
    """Stands for whatever ends a process between two steps."""


class TestResume:
    def test_an_interrupted_run_completes_with_the_planned_steps(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        records, config = stripes(30), replace(SMALL, steps=6)
        plan = plan_for(DPDM(), config, facts_of(records))
        place = "understudy.methods.diffusion.private_training.speed_of"
        monkeypatch.setattr(place, lambda *_: Speed(block_steps=2))
        original = DenoiserTraining.advance

        def stopping(self: DenoiserTraining, step: int, steps: int, rate: float) -> None:
            if step == 3:
                raise StoppedError
            original(self, step, steps, rate)

        first = Bench(tmp_path, plan)
        monkeypatch.setattr(DenoiserTraining, "advance", stopping)
        with pytest.raises(StoppedError):
            first.fit(DPDM(), config, records)
        monkeypatch.setattr(DenoiserTraining, "advance", original)
        first.close()
        # The fourth step's noise was drawn, so it is spent although its state is lost.
        assert first.journal.spent(TRAINING) == 4
        second = Bench(tmp_path, plan)
        assert second.context.restore() is not None
        second.fit(DPDM(), config, records)
        assert second.journal.spent(TRAINING) == 6
        assert second.context.staged == 2
        second.close()

    def test_a_finished_run_gives_its_synthesizer_again(self, tmp_path: Path) -> None:
        records = stripes(30)
        plan = plan_for(DPDM(), SMALL, facts_of(records))
        made = []
        for _ in range(2):
            bench = Bench(tmp_path, plan)
            made.append(bench.fit(DPDM(), SMALL, records).sample(4).features)
            bench.close()
        assert (made[0] == made[1]).all()


class TestClip:
    def clipped_sum(self, many: int, chosen: list[int]) -> torch.Tensor:
        records, config = stripes(6), replace(SMALL, clip=1e-3)
        training = DenoiserTraining(config, config.network((1, 8, 8), 3), 0, torch.device("cpu"))
        engine = GradientEngine(
            BoundModels([training.network]),
            BoundLoss(training.loss),
            training.draws,
            DPSGD(TRAINING, 1, 0.5, config.clip, 1.0, many),
            Speed(micro_batch=4 * many),
            records,
            NoiseSource.insecure(0),
            3.0,
        )
        return engine.clipped_sum(np.array(chosen), {}).total

    def test_all_noises_of_an_image_share_one_clip(self) -> None:
        alone = float(torch.linalg.vector_norm(self.clipped_sum(3, [2])))
        assert alone <= 1e-3, "moved too far"
        assert alone > 0.9e-3
        both = float(torch.linalg.vector_norm(self.clipped_sum(3, [2, 4])))
        assert both <= 2e-3, "moved too far"


class TestPlan:
    def test_the_declared_count_sets_the_rate(self) -> None:
        (planned,) = DPDM().spend(SMALL, facts_of(stripes(20), count=40))(2.0)
        expected = DPSGD(TRAINING, 4, 0.25, SMALL.clip, 2.0, multiplicity=2)
        assert planned == expected, "the plan is not what the settings say"

    def test_too_few_records_for_the_plan(self) -> None:
        with pytest.raises(UserError, match=r"'batch' is 10 .* too few records .* at most 9"):
            DPDM().spend(SMALL, facts_of(stripes(9)))

    def test_large_images_are_refused(self) -> None:
        with pytest.raises(UserError, match="dpdm takes images"):
            DPDM().spend(SMALL, facts_of(stripes(3, size=65), count=100))

    def test_each_noise_of_an_image_is_a_pass(self) -> None:
        facts = facts_of(stripes(40))
        one, eight = (private_loops(replace(SMALL, multiplicity=m), facts, 40) for m in (1, 8))
        assert eight[0].passes == 8 * one[0].passes
        assert eight[1] == one[1], "drawing has none of them"

    def test_a_micro_batch_holds_whole_records(self) -> None:
        config = replace(SMALL, batch=400, multiplicity=4)
        small, cpu, cuda = config.network((1, 8, 8), 3), torch.device("cpu"), torch.device("cuda")
        assert speed_of(config, small, cpu).micro_batch == 50 * 4
        assert speed_of(config, small, cuda).micro_batch == 0
        assert speed_of(replace(config, micro_batch=7), small, cuda).micro_batch == 7

    def test_micro_batches_are_cuda_graphs_on_a_gpu(self) -> None:
        small = SMALL.network((1, 8, 8), 3)
        devices = [torch.device("cpu"), torch.device("cuda")]
        assert [speed_of(SMALL, small, device).cuda_graph for device in devices] == [False, True]

    def test_large_networks_are_given_fewer_records_at_once(self) -> None:
        """What a processor keeps of a micro-batch of the mnist preset was 20 MB a pass."""
        config = resolve_config(get_method("dpdm"), "mnist", 1.0).config
        assert isinstance(config, DiffusionConfig)
        network = config.network((1, 28, 28), 10)
        assert 15e6 < network.bytes_a_pass < 30e6
        rows = speed_of(config, network, torch.device("cpu")).micro_batch
        assert rows % config.multiplicity == 0
        assert 0.5e9 < rows * network.bytes_a_pass < 2e9
        facts = facts_of(stripes(40, size=28), count=60_000)
        assert 1.5 < gigabytes_of(config, facts) < 3


class TestPresets:
    @pytest.mark.parametrize("dataset", DATASETS)
    @pytest.mark.parametrize("epsilon", [1.0, 10.0])
    @pytest.mark.parametrize("name", METHODS)
    def test_presets_are_settings_that_build(
        self, name: str, dataset: str | None, epsilon: float
    ) -> None:
        resolved = resolve_config(get_method(name), dataset, epsilon)
        config = resolved.config
        assert isinstance(config, DiffusionConfig)
        assert resolved.tuned_on
        shapes = {
            "digits": (1, 8, 8),
            "mnist": (1, 28, 28),
            "fashion-mnist": (1, 28, 28),
            "cifar-10": (3, 32, 32),
            "portraits": (3, 64, 64),
            "utkface": (3, 64, 64),
        }
        spec = config.network(shapes.get(dataset or "", (1, 20, 20)), 10)
        meant = set(config.attention) <= set(spec.unet.sizes) | {0}
        assert meant or dataset is None, "a preset for a size knows its levels"
        assert bool(spec.unet.attention) == any(config.attention)

    def test_an_unknown_setting_is_named(self) -> None:
        with pytest.raises(UserError, match="did you mean multiplicity"):
            build_config(DiffusionConfig, {"multiplicty": 3})
