"""A denoiser in training: what its loss looks at, and that it can be gone on with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.methods.diffusion.small import SMALL
from understudy.errors import UserError
from understudy.methods.config import build_config
from understudy.methods.diffusion.denoiser_training import DenoiserTraining, chosen_codes
from understudy.methods.diffusion.network import Framed, NetworkSpec, take_over
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.privacy.door.batch import Batch

CPU = torch.device("cpu")


def training_of(config: DiffusionConfig = SMALL, classes: int = 3) -> DenoiserTraining:
    training = DenoiserTraining(config, config.network((1, 8, 8), classes), 0, CPU)
    torch.manual_seed(0)
    for parameter in training.network.parameters():  # its last layer begins at zero
        parameter.data += 0.05 * torch.randn(parameter.shape)
    return training


def batch_of(training: DenoiserTraining, rows: int = 5, seed: int = 0) -> Batch:
    random = torch.Generator().manual_seed(seed)
    draws = {
        name: torch.rand((rows, *shape), generator=random)
        if name.startswith("uniform")
        else torch.randn((rows, *shape), generator=random)
        for name, shape in training.draws.items()
    }
    images = torch.rand(rows, 1, 8, 8, generator=random)
    codes = torch.randint(training.spec.classes, (rows,), generator=random)
    return Batch(images, {"label": codes}, draws, "label")


def losses(training: DenoiserTraining, batch: Batch) -> torch.Tensor:
    return training.loss([training.network], batch, {})


class TestLoss:
    def test_a_row_means_the_same_alone(self) -> None:
        training = training_of(replace(SMALL, flip=True))
        batch = batch_of(training)
        together = losses(training, batch)
        alone = torch.cat([losses(training, batch.row(i)) for i in range(len(batch))])
        assert torch.allclose(together, alone, atol=1e-5), "a row depends on other rows"

    def test_all_of_its_randomness_is_the_doors(self) -> None:
        training = training_of(replace(SMALL, flip=True))
        batch = batch_of(training)
        same = torch.equal(losses(training, batch), losses(training, batch))
        assert same, "randomness that is not the door's"
        assert set(training.draws) == {
            "level",
            "noise",
            "uniform_drop",
            "uniform_label",
            "uniform_flip",
        }

    def test_noises_of_a_pair_share_all_but_their_sign(self) -> None:
        training = training_of(replace(SMALL, flip=True, noise_pairs=True))
        assert set(training.draws) == {
            "level_paired",
            "noise_mirrored",
            "uniform_drop_paired",
            "uniform_label_paired",
            "uniform_flip_paired",
        }
        plain = training_of(replace(SMALL, flip=True))
        batch = batch_of(plain)
        renamed = dict(zip(training.draws, (batch.draws[n] for n in plain.draws), strict=True))
        same = replace(batch, draws=renamed)
        assert torch.equal(losses(training, same), losses(plain, batch))

    def test_high_noise_levels_count_less_if_asked(self) -> None:
        config = replace(SMALL, level_values=(0.5, 1.5))
        plain, balanced = training_of(config), training_of(replace(config, level_balance=0.5))
        batch = batch_of(plain)
        levels = config.noise_levels.of(batch.draws["level"])
        assert float(levels.min()) < 1 < float(levels.max())
        wanted = losses(plain, batch) / levels.clamp(min=1).sqrt()
        assert torch.allclose(losses(balanced, batch), wanted)

    @pytest.mark.parametrize(("drop", "matters"), [(0.0, True), (1.0, False)])
    def test_a_dropped_label_is_not_looked_at(self, drop: float, matters: bool) -> None:
        training = training_of(replace(SMALL, label_drop=drop))
        batch = batch_of(training)
        other = Batch(batch.features, {"label": (batch.labels + 1) % 3}, batch.draws, "label")
        same = torch.allclose(losses(training, batch), losses(training, other))
        assert same is not matters

    def test_half_of_the_images_are_mirrored_if_asked(self) -> None:
        training = training_of(replace(SMALL, flip=True))
        batch = batch_of(training)
        heads = {**batch.draws, "uniform_flip": torch.zeros(5)}
        mirrored = Batch(batch.features.flip(-1), batch.attributes, heads, "label")
        tails = {**batch.draws, "uniform_flip": torch.ones(5)}
        plain = Batch(batch.features, batch.attributes, tails, "label")
        assert torch.equal(losses(training, mirrored), losses(training, plain))

    def test_of_soft_labels_one_class_is_drawn(self) -> None:
        soft = torch.tensor([[0.2, 0.5, 0.3]] * 4)
        drawn = chosen_codes(soft, torch.tensor([0.1, 0.3, 0.69, 0.999]))
        assert drawn.tolist() == [0, 1, 1, 2]
        codes = torch.tensor([2, 0])
        assert chosen_codes(codes, torch.zeros(2)) is codes


class TestState:
    def step(self, training: DenoiserTraining, number: int) -> None:
        losses(training, batch_of(training, seed=number)).mean().backward()  # type: ignore[no-untyped-call]
        training.advance(number, 9, 1e-3)

    def test_it_goes_on_from_a_snapshot_as_if_it_had_not_stopped(self) -> None:
        through, again = training_of(), training_of()
        self.step(through, 0)
        self.step(through, 1)
        again.load(through.snapshot())
        self.step(through, 2)
        self.step(again, 2)
        for name, tensor in through.snapshot().tensors.items():
            assert torch.equal(tensor, again.snapshot().tensors[name]), name

    def test_the_rate_rises_and_falls_as_asked(self) -> None:
        training = training_of(replace(SMALL, warm_up=4, decay="cosine"))
        rates = []
        for number in range(9):
            self.step(training, number)
            rates.append(training.optimizer.param_groups[0]["lr"])
        assert rates[0] < rates[1] < rates[3]
        assert rates[8] < rates[5] < 1e-3

    def test_beginning_again_starts_from_the_average(self) -> None:
        training = training_of()
        self.step(training, 0)
        training.begin_again()
        for ours, theirs in zip(
            training.network.parameters(), training.average.parameters(), strict=True
        ):
            assert torch.equal(ours, theirs)
        assert training.optimizer.state_dict()["state"] == {}


class TestNetwork:
    def test_images_that_are_not_its_square_get_a_frame(self) -> None:
        spec = NetworkSpec.of((3, 10, 13), 2, 8, (1, 1), (1, 1), (0,), 2)
        network = spec.build()
        assert isinstance(network, Framed)
        assert spec.unet.image_size == 16
        images = torch.rand(2, 3, 10, 13)
        assert network(images, torch.zeros(2), torch.zeros(2).long()).shape == images.shape
        assert NetworkSpec.from_json(spec.to_json()) == spec

    def test_classes_keep_their_codes_and_no_class_is_taken_over(self) -> None:
        theirs, ours = training_of(classes=5), training_of(classes=2)
        own = {name: value.clone() for name, value in ours.network.state_dict().items()}
        take_over(ours.network, theirs.network.state_dict())
        found, given = ours.network.state_dict(), theirs.network.state_dict()
        (codes,) = (name for name in found if "label" in name)
        assert not torch.equal(own[codes][0], own[codes][1])
        for name, value in found.items():
            if name == codes:
                assert torch.equal(value[:2], own[name][:2]), "classes that are one to the network"
                assert torch.equal(value[2], given[name][5])
            else:
                assert torch.equal(value, given[name])


class TestSettings:
    @pytest.mark.parametrize(
        ("values", "words"),
        [
            ({"level_values": "1"}, "two numbers"),
            ({"level_values": "1,-1"}, "deviation"),
            ({"levels": "log-uniform", "level_values": "2,1"}, "below the second"),
            ({"noise_pairs": "true", "multiplicity": "3"}, "even multiplicity, not 3"),
            ({"sampler": "euler"}, "one of heun, ddim, edm"),
            ({"guidance": "1", "label_drop": "0"}, "'guidance' needs a label_drop above 0"),
            ({"highest_level": "0.001"}, "highest_level"),
            ({"label_drop": "1"}, "label_drop"),
        ],
    )
    def test_wrong_values_are_named(self, values: dict[str, str], words: str) -> None:
        with pytest.raises(UserError, match=words):
            build_config(DiffusionConfig, values)

    def test_levels_and_blocks_must_agree(self) -> None:
        with pytest.raises(UserError, match="one number per level"):
            replace(SMALL, blocks=(1, 1)).network((1, 8, 8), 3)

    def test_attention_is_at_the_nearest_level(self) -> None:
        """So that the defaults attend in images of any size."""
        config = DiffusionConfig()
        for side, level in ((28, 7), (32, 8), (64, 16), (20, 5)):
            assert config.network((1, side, side), 2).unet.attention == (level,)
        assert replace(config, attention=(0,)).network((1, 28, 28), 2).unet.attention == ()
