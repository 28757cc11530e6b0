"""A loss that dp_sgd takes holds nothing that can change, and is seen where it did all the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from tests.privacy.rig import classify, handle, kinds, mlp, records
from understudy.errors import PrivacyError, RunFailed, UserError
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.loss import BoundLoss, Models, Values, values_on
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.state import State
from understudy.privacy.plan.mechanisms import DPSGD

SGD = DPSGD("sgd", 10, rate=0.5, clip=0.5, sigma=1.0)
FAST = Speed(backend="vmap", block_steps=2)


class Stage(Enum):
    OWN = 0
    MIXED = 1


class Holder:
    weight = 1.0


class Hidden(Enum):
    """A member that never changes, and what it holds does."""

    LIST = [1.0]  # noqa: RUF012 - just what is refused
    OBJECT = Holder()


class Scale(float):
    """A number that can be given attributes."""


class Several(tuple[float, ...]):
    """A tuple that can be given attributes."""


class Pair(NamedTuple):
    first: int
    second: str


@dataclass(frozen=True)
class Inner:
    weight: float = 1.0


@dataclass(frozen=True)
class Weighted:
    """All kinds of fields that stay."""

    weight: float = 1.0
    stage: Stage = Stage.OWN
    pair: Pair = field(default_factory=lambda: Pair(1, "two"))
    inner: Inner = field(default_factory=Inner)
    table: torch.Tensor = field(default_factory=lambda: torch.ones(3))
    names: frozenset[str] = frozenset({"a", "b"})
    kind: torch.dtype = torch.float32

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        return self.weight * self.table[0] * classify(models, batch, values)


@dataclass
class Loose:
    """As a loss was written before: any attribute may be set."""

    weight: float = 1.0

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        return self.weight * classify(models, batch, values)


class Method:
    stage = 0

    def loss(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        return classify(models, batch, values)


def plain(models: Models, batch: Batch, values: Values) -> torch.Tensor:
    return classify(models, batch, values)


def test_a_frozen_loss_with_immutable_fields_is_taken() -> None:
    bound = BoundLoss(Weighted())
    bound.require_unchanged()
    assert [tensor.tolist() for tensor in bound.tensors] == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    "loss",
    [plain, lambda *_: None, Method().loss, Loose(), mlp(), Weighted],
    ids=["function", "lambda", "method", "not frozen", "network", "the class"],
)
def test_what_is_no_frozen_dataclass_is_refused_by_name(loss: Any) -> None:
    with pytest.raises(UserError, match="write a frozen dataclass with __call__"):
        BoundLoss(loss)


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (mlp(), "give networks to dp_sgd as models"),
        ([1.0], "list"),
        ({"stage": 0}, "dict"),
        ((1.0, [2.0]), "list"),
        (Loose(), "Loose"),
        (lambda: 1.0, "function"),
        (nn.Parameter(torch.ones(2)), "needs a gradient"),
        (torch.ones(2, requires_grad=True) * 2, "needs a gradient"),
        (Hidden.LIST, "list"),
        (Hidden.OBJECT, "Holder"),
        (Scale(1.0), "Scale"),
        (Several((1.0,)), "Several"),
    ],
    ids=[
        *("network", "list", "dict", "tuple", "not frozen", "function", "parameter", "computed"),
        *("enum of lists", "enum of objects", "kind of float", "kind of tuple"),
    ],
)
def test_a_field_that_can_change_is_refused_by_name(held: Any, why: str) -> None:
    with pytest.raises(UserError, match="'weight' of the loss Weighted") as refused:
        BoundLoss(Weighted(weight=held))
    assert why in str(refused.value)


def test_what_is_put_into_the_object_besides_its_fields_is_refused() -> None:
    loss = Weighted()
    object.__setattr__(loss, "hidden", [])
    with pytest.raises(UserError, match="'hidden'"):
        BoundLoss(loss)


def test_a_frozen_value_inside_of_a_field_is_looked_into() -> None:
    with pytest.raises(UserError, match=r"'inner\.weight'"):
        BoundLoss(Weighted(inner=Inner(weight=[])))  # type: ignore[arg-type]


def turns() -> dict[str, Callable[[Weighted], object]]:
    return {
        "a field": lambda loss: object.__setattr__(loss, "weight", 2.0),
        "to another type": lambda loss: object.__setattr__(loss, "weight", True),
        "a tensor in place": lambda loss: loss.table.mul_(2),
        "a tensor past its count of writes": lambda loss: loss.table.data.mul_(2),
        "a tensor's memory": lambda loss: loss.table.numpy().fill(2),
        "a tensor's type": lambda loss: object.__setattr__(loss, "table", loss.table.double()),
        "inside": lambda loss: object.__setattr__(loss.inner, "weight", 3.0),
        "a new attribute": lambda loss: object.__setattr__(loss, "more", 1),
        "an option": lambda loss: object.__setattr__(loss, "stage", Stage.MIXED),
    }


@pytest.mark.parametrize("turn", turns())
def test_a_loss_that_is_turned_by_force_is_seen(turn: str) -> None:
    loss = Weighted()
    bound = BoundLoss(loss)
    turns()[turn](loss)
    with pytest.raises(PrivacyError, match="was changed after it was checked"):
        bound.require_unchanged()


def test_a_loss_that_is_turned_within_a_block_ends_the_run(tmp_path: Path) -> None:
    """What was summed in that block nobody had checked: nothing of it is committed."""
    loss, model = Weighted(), mlp()
    private = handle(tmp_path, records(8), SGD)
    door = private._door
    session = private.dp_sgd(door.plan, [model], loss, speed=FAST)
    session.step()
    door.checkpoint(State)
    loss.table.mul_(2)
    session.step()
    with pytest.raises(RunFailed):
        door.checkpoint(State)
    with pytest.raises(PrivacyError):
        session.step()
    assert kinds(tmp_path) == ["plan", "reserve", "fail"]


@dataclass(frozen=True)
class Scaled:
    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        mixed = values["mixed"] * (raw := classify(models, batch, values)).mean()
        return values["weight"] * raw - mixed


def test_values_change_from_step_to_step(tmp_path: Path) -> None:
    from tests.privacy.rig import Silence, gradient

    model = mlp()
    wide = replace(SGD, clip=1e6)
    private = handle(tmp_path, records(8), wide, noise=Silence())
    session = private.dp_sgd(private._door.plan, [model], Scaled(), speed=FAST)
    found = []
    for weight in (1.0, torch.tensor(3.0)):
        session.step({"weight": weight, "mixed": 0.0})
        found.append(gradient(model))
        private._door.checkpoint(State)
    assert torch.allclose(3 * found[0], found[1], rtol=1e-5)


def test_values_that_make_a_loss_mix_are_refused_at_the_next_block(tmp_path: Path) -> None:
    private = handle(tmp_path, records(8), SGD)
    session = private.dp_sgd(private._door.plan, [mlp()], Scaled(), speed=FAST)
    for mixed in (0.0, 0.0):
        session.step({"weight": 1.0, "mixed": mixed})
        private._door.checkpoint(State)
    with pytest.raises(PrivacyError, match="mixes"):
        session.step({"weight": 1.0, "mixed": 1e-3})


@pytest.mark.parametrize("values", [{}, {"weight": 1.0, "mixed": torch.zeros(2)}, {"weight": 1.0}])
def test_values_keep_their_form(tmp_path: Path, values: dict[str, Any]) -> None:
    private = handle(tmp_path, records(8), SGD)
    session = private.dp_sgd(private._door.plan, [mlp()], Scaled(), speed=FAST)
    session.step({"weight": 1.0, "mixed": 0.0})
    private._door.checkpoint(State)
    with pytest.raises(PrivacyError, match="names, shapes and types of the first"):
        session.step(values)


def test_a_value_that_needs_a_gradient_is_refused() -> None:
    with pytest.raises(UserError, match=r"'weight'.*\.detach"):
        values_on(torch.device("cpu"), {"weight": torch.ones(1, requires_grad=True)})


OPTIONS = {"mixed": False}


@dataclass(frozen=True)
class ReadsAGlobal:
    """Nothing that it holds changes, but what its code reads does."""

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        found = classify(models, batch, values)
        return found - found.mean() if OPTIONS["mixed"] else found


@pytest.mark.parametrize("backend", ["expanded", "vmap"])
def test_a_global_that_is_turned_is_seen_at_the_next_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    private = handle(tmp_path, records(8), SGD)
    speed = Speed(backend=backend, block_steps=1)
    session = private.dp_sgd(private._door.plan, [mlp()], ReadsAGlobal(), speed=speed)
    session.step()
    private._door.checkpoint(State)
    monkeypatch.setitem(OPTIONS, "mixed", True)
    with pytest.raises(PrivacyError, match="mixes"):
        session.step()
