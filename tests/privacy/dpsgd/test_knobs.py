"""Whatever a method can turn after a check is seen; what merely moves is not."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy import rig
from tests.privacy.rig import mlp
from understudy.privacy.dpsgd import knobs
from understudy.privacy.dpsgd.engine import GradientSum
from understudy.privacy.dpsgd.knobs import knobs_of

STAGE = 0
HERE = sys.modules[__name__]


class Kind(Enum):
    OWN = 0
    MIXED = 1


class Slotted:
    __slots__ = ("__hidden", "stage")

    def __init__(self) -> None:
        self.stage = self.__hidden = 0

    def turn(self) -> None:
        self.__hidden = 1


class OneSlot:
    __slots__ = "mix"

    def __init__(self) -> None:
        self.mix = 0


class Entries(dict[str, int]):
    """With something besides its entries."""

    stage = 0


class Refusing(dict[str, int]):
    """Cannot be looked at."""

    def keys(self) -> Any:
        raise KeyError("a test")


@dataclass
class Method:
    shared: ClassVar[str] = "own"
    stage: int = 0
    weight: float = 0.5
    options: dict[str, Any] = field(default_factory=dict)
    space: Any = None

    def loss(self, values: Any) -> Any:
        return self.helped(values) if self.stage else values

    def helped(self, values: Any) -> Any:
        return values - read_stage()

    def __call__(self, values: Any) -> Any:
        return self.loss(values)


def read_stage() -> int:
    return STAGE


@cache
def cached() -> int:
    return STAGE


def read_module() -> Any:
    return rig.TABLE  # type: ignore[attr-defined]


def rig_table() -> dict[str, int]:
    found: dict[str, int] = rig.TABLE  # type: ignore[attr-defined]
    return found


@pytest.fixture(autouse=True)
def table_of_another_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig, "TABLE", {"mix": 0}, raising=False)


def turned_on(what: Any, name: str, value: Any = 1) -> Callable[[], None]:
    return lambda: setattr(what, name, value)


def cases() -> dict[str, tuple[Any, Callable[[], None]]]:
    method, other, called, held = Method(), Method(), Method(), Method(space=Slotted())
    spaces = {"simple": SimpleNamespace(stage=0), "namespace": Namespace(stage=0)}
    entries: dict[str, Any] = {"mix": False, "inner": [1, {2}]}
    model, hooked, modes, kept = mlp(), mlp(), mlp(), mlp()
    cell, inner, single, classed = [0], Slotted(), OneSlot(), Entries()
    queue: deque[int] = deque([1])

    def by_default(values: Any, stage: list[int] = cell) -> Any:
        return values if stage[0] else None

    def by_closure(values: Any) -> Any:
        return entries, values

    found: dict[str, tuple[Any, Callable[[], None]]] = {
        "method": (method.loss, turned_on(method, "stage")),
        "weight that becomes zero": (other.loss, turned_on(other, "weight", 0.0)),
        "callable object": (called, turned_on(called, "stage", Kind.MIXED)),
        "dict of an object": (held.loss, lambda: held.options.update(mix=np.bool_(True))),
        "slots": (held, lambda: setattr(held.space, "stage", 1)),
        "global of a function that is called": (Method().loss, turned_on(HERE, "STAGE")),
        "builtin": (
            (swapped := Method(space=torch.sub)),
            turned_on(swapped, "space", torch.cumsum),
        ),
        "hidden slot": ([inner], inner.turn),
        "one slot": ([single], turned_on(single, "mix")),
        "attribute of a container": ([classed], turned_on(classed, "stage")),
        "class": (Method().loss, turned_on(Method, "shared", "mixed")),
        "queue": ([queue], lambda: queue.append(2)),
        "what a cached function reads": ([cached], turned_on(HERE, "STAGE")),
        "dict of another module": (read_module, lambda: rig_table().update(mix=1)),
        "closure": (by_closure, lambda: entries.update(mix=True)),
        "inside a container": (partial(by_closure, 1), lambda: entries["inner"][1].add(3)),
        "default": (by_default, lambda: cell.append(1)),
        "function's attribute": (read_module, turned_on(read_module, "stage")),
        "option of a module": ([rig], turned_on(rig, "STAGE")),
        "model's attribute": (model, turned_on(model[1], "fade")),
        "mode": (modes, lambda: modes.eval() and None),
        "hook": (hooked, lambda: hooked[1].register_forward_hook(print) and None),
        "layer": (kept, lambda: kept.append(nn.BatchNorm1d(3, affine=False)) and None),
    }
    return found | {name: (s, turned_on(s, "stage")) for name, s in spaces.items()}


@pytest.mark.parametrize("name", cases())
def test_what_is_turned_is_seen(name: str) -> None:
    loss, turn = cases()[name]
    kept, shared = (dict(vars(HERE)), dict(vars(rig)), dict(vars(read_module))), Method.shared
    before = knobs_of(loss)
    assert before == knobs_of(loss)
    try:
        turn()
        assert knobs_of(loss) != before, "a knob was turned, and nobody saw it"
    finally:
        Method.shared = shared
        for place, was in zip((HERE, rig, read_module), kept, strict=True):
            vars(place).clear()
            vars(place).update(was)


def test_what_merely_moves_is_no_other_callback() -> None:
    model = mlp()

    def made(weight: float, table: np.ndarray) -> Callable[[Any], Any]:
        return lambda values: weight * table[0] * model(values)

    before = knobs_of(made(0.5, np.zeros(3)), [model])
    with torch.no_grad():
        model[1].weight.add_(1.0)
    assert knobs_of(made(0.7, np.ones(3)), [model]) == before


def test_an_option_of_another_type_is_another() -> None:
    found = [knobs_of([option]) for option in (1, True, "1", None, Kind.MIXED, np.int64(1))]
    assert len(set(found)) == len(found)


def test_objects_that_lead_to_each_other_come_to_an_end() -> None:
    one, two = SimpleNamespace(stage=0), SimpleNamespace(stage=0)
    one.other, two.other = two, one
    before = knobs_of(one)
    two.stage = 1
    assert knobs_of(one) != before


def test_long_chains_are_followed_and_too_long_ones_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = last = [0]
    for _ in range(3000):
        chain = [chain]
    before = knobs_of(chain)
    last[0] = 1
    assert None not in (before, knobs_of(chain))
    assert knobs_of(chain) != before
    monkeypatch.setattr(knobs, "_MOST", 1000)
    assert knobs_of(chain) is None


def test_what_cannot_be_looked_at_is_checked_every_time() -> None:
    assert knobs_of([Refusing()]) is None

    def later() -> Any:
        return empty

    assert knobs_of(later) is not None
    empty = 1
    assert empty == later()


def test_what_lies_behind_the_door_turns_nothing() -> None:
    """It counts steps, and a method may hold it."""
    method = Method(space=GradientSum(torch.ones(1), 1, torch.ones(1), torch.ones(1)))
    before = knobs_of(method.loss)
    method.space = GradientSum(torch.ones(1), 2, torch.ones(1), torch.ones(1))
    assert knobs_of(method.loss) == before
