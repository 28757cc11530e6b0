"""The discriminator: per-record gradients by every backend, nothing shared between rows."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from understudy.nets.discriminator import Discriminator
from understudy.nets.per_example.expanded import ExpandedBackend
from understudy.nets.per_example.twins import trainable
from understudy.nets.per_example.vmap import VmapBackend
from understudy.nets.seeding import built
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.loss import Models, Values

ALLOWED = (nn.Conv2d, nn.Linear, nn.GroupNorm)
SHAPES = [(1, 8, 8), (3, 11, 14), (1, 28, 28), (3, 64, 64)]


def judge(shape: tuple[int, int, int]) -> Discriminator:
    return built(lambda: Discriminator(shape, classes=3, width=4, features=6), 0, "test")


def loss(models: Models, batch: Batch, values: Values) -> torch.Tensor:
    """Uses the discriminator twice, as the loss with a fake inside does."""
    del values
    classes = batch.attributes["weights"]
    scores: torch.Tensor = models[0](batch.features, classes)
    again: torch.Tensor = models[0](1 - batch.features, classes)
    return scores.square() + again


def batch_of(rows: int, shape: tuple[int, int, int]) -> Batch:
    generator = torch.Generator().manual_seed(1)
    weights = torch.softmax(torch.randn(rows, 3, generator=generator), dim=1)
    return Batch(torch.rand(rows, *shape, generator=generator), {"weights": weights})


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_backends_agree_with_one_record_at_a_time(shape: tuple[int, int, int]) -> None:
    model, batch = judge(shape), batch_of(3, shape)
    alone = []
    for row in range(3):
        value = loss([model], batch.row(row), {}).sum()
        grads = torch.autograd.grad(value, trainable([model]))
        alone.append(torch.cat([g.flatten() for g in grads]))
    expected = torch.stack(alone)
    for backend in (VmapBackend([model]), ExpandedBackend([model])):
        _, gradients = backend.per_example(loss, batch, {}, 1)
        found = torch.cat([g.flatten(1) for g in gradients], dim=1)
        assert torch.allclose(found, expected, atol=1e-5, rtol=1e-4), backend.name


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_layer_is_one_that_all_backends_know(shape: tuple[int, int, int]) -> None:
    layers = [m for m in judge(shape).modules() if not list(m.children())]
    assert all(isinstance(layer, ALLOWED) for layer in layers)


def test_the_class_matters() -> None:
    model, batch = judge((1, 8, 8)), batch_of(1, (1, 8, 8))
    eye = torch.eye(3)
    assert not torch.equal(model(batch.features, eye[:1]), model(batch.features, eye[1:2]))


def test_soft_weights_lie_between_hard_ones() -> None:
    model, image = judge((1, 8, 8)), batch_of(1, (1, 8, 8)).features
    eye = torch.eye(3)
    half = model(image, (eye[:1] + eye[1:2]) / 2)
    mean = (model(image, eye[:1]) + model(image, eye[1:2])) / 2
    assert torch.allclose(half, mean, atol=1e-6)
