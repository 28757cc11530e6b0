"""Every layer that the expanded backend knows gives each record its own gradient."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from understudy.errors import PrivacyError
from understudy.nets.per_example import functions
from understudy.nets.per_example.expanded import ExpandedBackend
from understudy.nets.per_example.twins import trainable
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.loss import Models, Values

RECORDS, DRAWS = 4, 3
IMAGE, TABLE, WORDS = (4, 7, 6), (5,), (3, 5)


class Looked(nn.Module):
    """An embedding of codes made of the features' signs, then something to move."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(2, 3)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.table((features > 0).long())


class Tied(nn.Module):
    """One layer used twice in a pass: its gradients add up."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.tanh(self.layer(features)))


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(5, 3), TABLE),
    "linear without bias": (lambda: nn.Linear(5, 3, bias=False), TABLE),
    "linear at every position": (lambda: nn.Linear(5, 2), WORDS),
    "convolution": (lambda: nn.Conv2d(4, 6, 3, padding=1), IMAGE),
    "strided": (lambda: nn.Conv2d(4, 6, 5, stride=2, padding=2), IMAGE),
    "strided unequally": (lambda: nn.Conv2d(4, 2, (2, 3), stride=(1, 2), padding=(0, 1)), IMAGE),
    "dilated": (lambda: nn.Conv2d(4, 2, 3, dilation=2, padding=2), IMAGE),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, groups=2), IMAGE),
    "depthwise without bias": (lambda: nn.Conv2d(4, 4, 3, groups=4, bias=False), IMAGE),
    "one by one": (lambda: nn.Conv2d(4, 3, 1), IMAGE),
    "transposed": (lambda: nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1), IMAGE),
    "transposed, grouped, uneven": (
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, output_padding=1),
        IMAGE,
    ),
    "group norm": (lambda: nn.GroupNorm(2, 4), IMAGE),
    "group norm of a table": (lambda: nn.GroupNorm(1, 5), TABLE),
    "layer norm": (lambda: nn.LayerNorm(5), WORDS),
    "layer norm over two": (lambda: nn.LayerNorm((7, 6)), IMAGE),
    "layer norm without bias": (lambda: nn.LayerNorm(5, bias=False), WORDS),
    "embedding": (Looked, TABLE),
    "tied": (Tied, TABLE),
    "frozen bias": (lambda: _frozen(nn.Linear(5, 3)), TABLE),
    "deep": (
        lambda: nn.Sequential(
            nn.Conv2d(4, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv2d(4, 2, 3)
        ),
        IMAGE,
    ),
}


def _frozen(layer: nn.Linear) -> nn.Linear:
    layer.bias.requires_grad_(False)
    return layer


def loss(models: Models, batch: Batch, values: Values) -> torch.Tensor:
    """A curved function of everything that the model says of a row."""
    del values
    said = models[0](batch.features).flatten(1)
    weights = torch.linspace(0.5, 1.5, said.shape[1])
    return (weights * (said + 0.1 * said**2)).sum(dim=1)


def batch_of(shape: tuple[int, ...], rows: int) -> Batch:
    return Batch(torch.randn(rows, *shape, generator=torch.Generator().manual_seed(1)), {})


@pytest.mark.parametrize("draws", [1, DRAWS])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_gives_each_record_the_gradient_it_has_alone(name: str, draws: int) -> None:
    check_each_record(name, draws)


CONVOLUTIONS = [n for n, (_, shape) in LAYERS.items() if shape == IMAGE and "norm" not in n]


@pytest.mark.parametrize("draws", [1, DRAWS])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_so_does_a_kernel_that_sees_much(
    name: str, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch's own kernel then takes records as groups: three of them, and the one that is left."""
    monkeypatch.setattr(functions, "_LARGE", 1)
    monkeypatch.setattr(functions, "_RECORDS_AS_GROUPS", RECORDS - 1)
    check_each_record(name, draws)


def check_each_record(name: str, draws: int) -> None:
    torch.manual_seed(0)
    build, shape = LAYERS[name]
    model = build()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    batch = batch_of(shape, RECORDS * draws)
    values, gradients = ExpandedBackend([model]).per_example(loss, batch, {}, draws)
    for record in range(RECORDS):
        alone = loss([model], batch.rows(record * draws, (record + 1) * draws), {}).mean()
        parts = torch.autograd.grad(alone, trainable([model]))
        expected = torch.cat([p.reshape(-1) for p in parts])
        assert torch.allclose(values[record], alone)
        found = torch.cat([g[record].reshape(-1) for g in gradients])
        off = float((found - expected).norm())
        assert off <= 1e-5 * float(expected.norm()), "another gradient than it has alone"


def test_memory_of_gradients_does_not_grow_with_the_draws() -> None:
    model = nn.Conv2d(4, 6, 3)
    for draws in (1, 8):
        _, found = ExpandedBackend([model]).per_example(loss, batch_of(IMAGE, 2 * draws), {}, draws)
        assert [g.shape for g in found] == [(2, *p.shape) for p in model.parameters()]


def test_the_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(5, 3), nn.LayerNorm(3))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    ExpandedBackend([model]).per_example(loss, batch_of(TABLE, 4), {}, 1)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert type(model[0]) is nn.Linear


def test_it_follows_parameters_that_training_has_moved() -> None:
    model = nn.Linear(5, 3)
    backend, batch = ExpandedBackend([model]), batch_of(TABLE, 4)
    _, before = backend.per_example(loss, batch, {}, 1)
    with torch.no_grad():
        model.weight.mul_(2.0)
    _, after = backend.per_example(loss, batch, {}, 1)
    _, fresh = ExpandedBackend([model]).per_example(loss, batch, {}, 1)
    assert all(map(torch.equal, after, fresh))
    assert not any(map(torch.equal, after[:1], before[:1]))


class Bare(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features * self.scale


class Doubling(nn.Linear):
    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return 2.0 * super().forward(features)


@pytest.mark.parametrize("model", [Bare(), Doubling(5, 3), nn.Bilinear(5, 5, 2)])
def test_what_it_does_not_know_is_refused(model: nn.Module) -> None:
    with pytest.raises(NotImplementedError, match=type(model).__name__):
        ExpandedBackend([model])


def test_a_layer_that_sees_other_rows_than_the_batch_is_refused() -> None:
    def both_at_once(models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del values
        said = models[0](torch.cat([batch.features, -batch.features])).sum(dim=1)
        return said[: len(batch)] + said[len(batch) :]

    with pytest.raises(PrivacyError, match="8 rows of a batch of 4"):
        ExpandedBackend([nn.Linear(5, 3)]).per_example(both_at_once, batch_of(TABLE, 4), {}, 1)
