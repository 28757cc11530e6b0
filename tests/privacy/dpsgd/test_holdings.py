"""A loss is recorded only if everything that it holds can be seen to stay."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial, wraps
from time import monotonic
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.privacy.rig import classify, mlp
from understudy.methods.diffusion.denoiser_training import DenoiserTraining
from understudy.methods.diffusion.network import NetworkSpec
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.backends.base import Loss
from understudy.privacy.dpsgd.holdings import held_by

WEIGHT = 0.5
TABLE = np.ones(3)


class Names(NamedTuple):
    first: str
    second: tuple[int, ...]


@dataclass(frozen=True)
class Options:
    names: Names
    weight: float

    def doubled(self) -> float:
        return 2 * self.weight


@dataclass
class Loose:
    weight: float = 1.0

    def __call__(self, models: Any, batch: Batch) -> torch.Tensor:
        return self.weight * classify(models, batch)

    def method(self, models: Any, batch: Batch) -> torch.Tensor:
        return self(models, batch)


def by_global(models: Any, batch: Batch) -> torch.Tensor:
    return WEIGHT * classify(models, batch)


def by_array(models: Any, batch: Batch) -> torch.Tensor:
    return float(TABLE[0]) * classify(models, batch)


def inside(models: Any, batch: Batch) -> torch.Tensor:
    def weighted() -> torch.Tensor:
        return float(TABLE[0]) * classify(models, batch)

    return weighted()


def closing_over(held: object) -> Loss:
    def loss(models: Any, batch: Batch) -> torch.Tensor:
        return classify(models, batch) if held is not None else torch.zeros(len(batch))

    return loss


def by_default(models: Any, batch: Batch, weight: float = 2.0) -> torch.Tensor:
    return weight * classify(models, batch)


def with_a_network(models: Any, batch: Batch, other: nn.Module = mlp(1)) -> torch.Tensor:  # noqa: B008
    del other
    return classify(models, batch)


def reading(held: object) -> Callable[[], object]:
    return lambda: held


def by_module(models: Any, batch: Batch) -> torch.Tensor:
    return settings.WEIGHT * classify(models, batch)


def importing(models: Any, batch: Batch) -> torch.Tensor:
    from tests.privacy import test_losses

    return test_losses.WEIGHT * classify(models, batch)


@dataclass(frozen=True)
class ByMethod:
    """A frozen one whose method reads what may change."""

    def weight(self) -> float:
        return float(TABLE[0])


@dataclass(frozen=True)
class ByProperty:
    @property
    def weight(self) -> float:
        return float(TABLE[0])


@dataclass(frozen=True)
class Shared:
    """A frozen one with something of its class that may change."""

    table: ClassVar[list[float]] = [1.0]


@dataclass(frozen=True)
class SharedUnderAName:
    _table: ClassVar[list[float]] = [1.0]


@dataclass(frozen=True)
class Kept:
    """A frozen one that remembers what it once read."""

    @lru_cache  # noqa: B019
    def weight(self) -> float:
        return float(TABLE[0])


class Further(Options):
    """Of a frozen one, and yet it can be given attributes."""


class Kind(Enum):
    FIRST = 1


class Loosely(Enum):
    FIRST = (1, [2.0])


def further(held: object) -> Further:
    found = Further(Names("a", ()), 0.5)
    found.more = held  # type: ignore[attr-defined]
    return found


@wraps(F.mse_loss)
def wrapped(*words: Any) -> torch.Tensor:
    return float(TABLE[0]) * F.mse_loss(*words)


def with_an_attribute(held: object) -> Callable[..., torch.Tensor]:
    def loss(models: Any, batch: Batch) -> torch.Tensor:
        return classify(models, batch)

    loss.held = held  # type: ignore[attr-defined]
    return closing_over(loss)


settings = sys.modules[__name__]
OPTIONS = Options(Names("a", (1, 2)), 0.5)


@pytest.mark.parametrize(
    "loss",
    [
        classify,
        by_global,
        by_default,
        closing_over(3),
        closing_over(OPTIONS),
        closing_over(classify),
        closing_over(reading(reading(OPTIONS))),
        closing_over((Options, Kind, Kind.FIRST, torch, torch.exp, F.silu, len)),
        closing_over((torch.float32, torch.channels_last, OPTIONS.doubled, further(1.0))),
    ],
)
def test_what_can_be_seen_to_stay_may_be_recorded(loss: Loss) -> None:
    assert held_by(loss) is not None
    assert held_by(loss) == held_by(loss)


@pytest.mark.parametrize(
    "loss",
    [
        partial(by_default, weight=1.0),
        Loose(),
        Loose().method,
        by_array,
        inside,
        with_a_network,
        closing_over(mlp()),
        closing_over(torch.ones(1)),
        closing_over([1.0]),
        closing_over({"weight": 1.0}),
        closing_over((1, [2])),
        closing_over(Loose()),
        closing_over(Options(Names("a", ()), np.ones(1))),  # type: ignore[arg-type]
        closing_over(reading(mlp())),
        closing_over((1, reading(reading([1.0])))),
        closing_over({"weight": 1.0}.get),
        closing_over(ByMethod()),
        closing_over(ByProperty()),
        closing_over(Shared()),
        closing_over(SharedUnderAName()),
        closing_over(Kept()),
        closing_over(further([1.0])),
        closing_over(Loosely.FIRST),
        closing_over(Loosely),
        closing_over(wrapped),
        closing_over(monotonic),
        with_an_attribute([1.0]),
        closing_over(Loose),
        by_module,
        importing,
    ],
)
def test_what_cannot_be_seen_to_stay_may_not(loss: Loss) -> None:
    assert held_by(loss) is None


def test_a_change_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = [by_global, by_default, closing_over(by_default), closing_over(OPTIONS)]
    before = [held_by(loss) for loss in losses]
    assert [held_by(loss) for loss in losses] == before
    monkeypatch.setitem(globals(), "WEIGHT", 0.1)
    monkeypatch.setattr(by_default, "__defaults__", (3.0,))
    monkeypatch.setattr(Options, "twice", lambda self: 2 * self.weight, raising=False)
    after = [held_by(loss) for loss in losses]
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_what_takes_the_place_of_another_is_seen() -> None:
    """Also where it was there already, elsewhere, and where it is equal and yet another."""
    held: list[object] = [F.relu, F.relu, F.silu, 1]
    first, second, third, number = held

    def loss(models: Any, batch: Batch) -> torch.Tensor:
        return classify(models, batch) if (first, second, third, number) else torch.zeros(1)

    before = held_by(loss)
    assert before is not None
    second = F.silu
    assert held_by(loss) != before
    second, number = F.relu, True
    assert held_by(loss) != before
    number = 1
    assert held_by(loss) == before


def test_the_loss_of_denoisers_may_be_recorded() -> None:
    config = DiffusionConfig(width=8, multipliers=(1,), blocks=(1,), attention=(0,), patch=1)
    spec = config.network((1, 4, 4), 3)
    assert isinstance(spec, NetworkSpec)
    training = DenoiserTraining(config, spec, 0, torch.device("cpu"))
    assert held_by(training.loss) is not None
    assert training.loss is training.loss
