"""Training: it learns, it repeats, it leaves generators alone, it takes soft labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.evaluation.evaluation_cases import SCHEMA
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.evaluation.classifier_training import FittedClassifier, fit_classifier
from understudy.evaluation.feed import Feed
from understudy.evaluation.optimisers import make_optimiser
from understudy.evaluation.protocol import ClassifierTraining, Protocol, load_protocol
from understudy.nets.classifiers import build_classifier
from understudy.progress import Silent


def fit(
    records: Records, training: ClassifierTraining, name: str = "mlp", seed: int = 0
) -> FittedClassifier:
    device = torch.device("cpu")
    return fit_classifier(name, records, training, seed=seed, device=device, progress=Silent())


def flat_weights(fitted: FittedClassifier) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in fitted.network.parameters()])


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_the_reduced_recipe_learns_the_digits(
    name: str, train: Records, test_part: Records
) -> None:
    fitted = fit(train, load_protocol("reduced").training, name)
    assert fitted.accuracy(test_part) > 0.95
    assert fitted.score is not None
    assert fitted.score > 0.9


def test_a_seed_gives_one_classifier_and_another_seed_another(
    train: Records, quick: Protocol
) -> None:
    weights = [flat_weights(fit(train, quick.training, seed=s)) for s in (0, 0, 1)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_process_generators_are_left_as_they_were(train: Records, quick: Protocol) -> None:
    torch.manual_seed(7)
    np.random.seed(7)
    expected = torch.rand(3), np.random.rand(3)
    torch.manual_seed(7)
    np.random.seed(7)
    fit(train, quick.training)
    assert torch.equal(torch.rand(3), expected[0])
    np.testing.assert_array_equal(np.random.rand(3), expected[1])


def test_soft_labels_that_are_certain_equal_hard_ones(train: Records, quick: Protocol) -> None:
    soft = replace(train, attributes={"digit": np.eye(10, dtype=np.float32)[train.labels]})
    hard_weights, soft_weights = (flat_weights(fit(r, quick.training)) for r in (train, soft))
    torch.testing.assert_close(hard_weights, soft_weights)


def test_soft_labels_teach_probabilities(quick: Protocol) -> None:
    """One image, labels 30% and 70%: the network must answer with these, not with the larger."""
    schema = Schema((Attribute("digit", ("a", "b")),), label="digit")
    pixels = np.full((200, 1, 8, 8), 200, dtype=np.uint8)
    soft = Records(pixels, {"digit": np.tile(np.float32([0.3, 0.7]), (200, 1))}, schema)
    network = fit(soft, replace(quick.training, least_steps=200)).network
    answer = network(torch.full((1, 1, 8, 8), 200 / 127.5 - 1)).softmax(dim=1)
    torch.testing.assert_close(answer, torch.tensor([[0.3, 0.7]]), atol=0.02, rtol=0)


def test_the_best_epoch_on_the_held_out_part_is_the_one_kept(
    train: Records, quick: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripted scores: epoch 3 ties in accuracy with epoch 2 and wins by its lower loss."""
    script = iter([(0.5, -0.1), (0.9, -0.5), (0.9, -0.4), (0.9, -0.6), (0.2, -0.0)])
    seen, held_sizes = [], []

    def scripted(network: torch.nn.Module, _: object, held: np.ndarray) -> object:
        seen.append(torch.cat([p.detach().flatten().clone() for p in network.parameters()]))
        held_sizes.append(len(held))
        return next(script)

    monkeypatch.setattr("understudy.evaluation.classifier_training._holdout_score", scripted)
    fitted = fit(train, replace(quick.training, epochs=5, least_steps=0))
    assert (fitted.epoch, fitted.score) == (3, 0.9)
    assert torch.equal(flat_weights(fitted), seen[2])
    assert not torch.equal(seen[2], seen[4])
    assert held_sizes == [144] * 5


def test_held_out_records_are_never_trained_on(
    train: Records, quick: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.evaluation import classifier_training as training

    trained: set[int] = set()
    held: set[int] = set()
    step, score = training._train_step, training._holdout_score

    def spy_step(network, feed, batch, optimiser):  # type: ignore[no-untyped-def]
        trained.update(batch.tolist())
        step(network, feed, batch, optimiser)

    def spy_score(network, feed, positions):  # type: ignore[no-untyped-def]
        held.update(positions.tolist())
        return score(network, feed, positions)

    monkeypatch.setattr(training, "_train_step", spy_step)
    monkeypatch.setattr(training, "_holdout_score", spy_score)
    fit(train, quick.training)
    assert not trained & held
    assert trained | held == set(range(len(train)))


@pytest.mark.parametrize(
    "settings",
    [
        {"optimiser": "sgd", "learning_rate": 0.05},
        {"schedule": "step", "step_epochs": 2, "step_factor": 0.5},
        {"optimiser": "adam", "schedule": "constant"},
        {"pixel_mean": 0.1307, "pixel_deviation": 0.3081},
        {"averaging": 0.9},
    ],
)
def test_other_optimisers_and_schedules_learn_too(
    train: Records, test_part: Records, quick: Protocol, settings: dict[str, Any]
) -> None:
    fitted = fit(train, replace(quick.training, **settings, least_steps=150))
    assert fitted.accuracy(test_part) > 0.9


def test_divergence_is_an_error_and_not_a_number(train: Records, quick: Protocol) -> None:
    ruinous = replace(quick.training, optimiser="sgd", learning_rate=9.9)
    huge = replace(train, features=train.features.astype(np.float32) * 1e30)
    with pytest.raises(FloatingPointError, match="diverged"):
        fit(huge, ruinous)


def test_table_rows_are_learned_too(quick: Protocol) -> None:
    source = np.random.default_rng(0)
    schema = Schema((Attribute("sign", ("minus", "plus")),), label="sign")
    rows = source.normal(size=(600, 5)).astype(np.float32)
    records = Records(rows, {"sign": (rows[:, 0] > 0).astype(np.int64)}, schema)
    fitted = fit(records.select(np.arange(500)), replace(quick.training, least_steps=200))
    assert fitted.accuracy(records.select(np.arange(500, 600))) > 0.9


def test_tiny_sets_train_and_a_single_record_is_refused(train: Records, quick: Protocol) -> None:
    assert fit(train.select([0, 1]), quick.training).epoch >= 1
    with pytest.raises(UserError, match="at least 2 records"):
        fit(train.select([0]), quick.training)


def test_memory_mapped_features_train_alike(
    train: Records, quick: Protocol, tmp_path: Path
) -> None:
    path = tmp_path / "pixels.npy"
    np.save(path, train.features)
    mapped = Records(np.load(path, mmap_mode="r"), train.attributes, SCHEMA)
    mapped_weights, weights = (flat_weights(fit(r, quick.training)) for r in (mapped, train))
    assert torch.equal(mapped_weights, weights)


def test_records_that_lie_on_the_device_train_alike(
    train: Records, quick: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, which holds them all: the very bits that batch by batch gives."""
    soft = replace(train, attributes={"digit": np.eye(10, dtype=np.float32)[train.labels]})
    of = Feed.of
    for records in (train, soft):
        gathered = fit(records, quick.training)
        with monkeypatch.context() as patch:
            patch.setattr(Feed, "of", lambda *words: of(*words).kept_on_device())
            resident = fit(records, quick.training)
        assert torch.equal(flat_weights(gathered), flat_weights(resident))
        assert (gathered.epoch, gathered.score) == (resident.epoch, resident.score)


def test_a_resident_batch_is_the_gathered_one(train: Records) -> None:
    gathered = Feed.of(train, torch.device("cpu"))
    assert gathered.resident is None, "a CPU gains nothing, and files may be mapped"
    resident = gathered.kept_on_device()
    positions = np.array([5, 2, 900])
    for one, other in zip(gathered.batch(positions), resident.batch(positions), strict=True):
        assert torch.equal(one, other)
    assert gathered.batch(positions)[0].min() >= -1


def test_settings_of_convolutions_are_left_as_they_were() -> None:
    from understudy.evaluation.classifier_training import _fast_convolutions

    before = torch.backends.cudnn.benchmark
    with _fast_convolutions(torch.device("cuda")):
        assert torch.backends.cudnn.benchmark
    assert torch.backends.cudnn.benchmark == before
    with _fast_convolutions(torch.device("cpu")):
        assert torch.backends.cudnn.benchmark == before


def test_a_step_is_the_plain_one_in_fp32(train: Records, quick: Protocol) -> None:
    """The whole training written out: order, batches, loss, optimiser; the same bits."""
    training = replace(quick.training, epochs=1, least_steps=3, batch_size=400)
    fitted = fit(train, training)
    order = np.random.default_rng(0)
    shuffled = order.permutation(len(train))
    kept = shuffled[round(training.holdout * len(train)) :]
    torch.manual_seed(0)
    network = build_classifier("mlp", train.shape, 10)
    optimiser, schedule = make_optimiser(network, training, 3, 3)
    for batch in np.array_split(order.permutation(kept), 3):
        pixels = torch.from_numpy(train.features[batch]).float() / 127.5 - 1.0
        loss = F.cross_entropy(network(pixels), torch.from_numpy(train.labels[batch]))
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()
    assert torch.equal(
        torch.cat([p.detach().flatten() for p in network.parameters()]), flat_weights(fitted)
    )
