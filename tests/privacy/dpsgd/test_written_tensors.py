"""A pass over records writes nothing that the method holds too, and could read afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.privacy.rig import classify, handle, kinds, mlp, records
from understudy.errors import PrivacyError
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.loss import Loss, Models, Values, values_on
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.plan.mechanisms import DPSGD

SGD = DPSGD("sgd", 10, rate=0.5, clip=0.5, sigma=1.0)


class Averaging(nn.Module):
    """Keeps a running mean of its inputs, in a parameter that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.mean = mlp(), nn.Parameter(torch.zeros(16), requires_grad=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.mean.data.mul_(0.9).add_(0.1 * images.detach().flatten(1).mean(dim=0))
        scores: torch.Tensor = self.inner(images)
        return scores


@dataclass(frozen=True)
class WritesItsValue:
    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        values["mean"].copy_(batch.features.detach().mean())
        return classify(models, batch, values)


@dataclass(frozen=True)
class WritesItsField:
    kept: torch.Tensor

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        self.kept.copy_(batch.features.detach().mean())
        return classify(models, batch, values)


KEPT: dict[str, torch.Tensor] = {}
TABLES: dict[int, torch.Tensor] = {}


class KeepsInAGlobal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = mlp()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.inner(images)
        KEPT["scores"] = scores
        return scores


class KeepsItsInput(KeepsInAGlobal):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        KEPT["images"] = images
        scores: torch.Tensor = self.inner(images)
        return scores


class KeepsForItself(KeepsInAGlobal):
    """In an attribute, of which every private pass has its own."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.scores: torch.Tensor = self.inner(images)
        return self.scores


class RemembersATable(KeepsInAGlobal):
    """What it remembers is made once, of no record."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        table = TABLES.setdefault(images.shape[-1], torch.ones(3))
        scores: torch.Tensor = self.inner(images) * table
        return scores


def hooked() -> nn.Module:
    """As features are taken from a network: by a hook on one of its layers."""
    model = mlp()
    model[1].register_forward_hook(lambda *seen: KEPT.update(output=seen[-1]))  # type: ignore
    return model


@pytest.mark.parametrize("backend", ["expanded", "vmap"])
@pytest.mark.parametrize("model", [KeepsInAGlobal, KeepsItsInput, hooked])
def test_a_pass_that_keeps_what_it_computes_is_refused(
    model: Callable[[], nn.Module], backend: str, tmp_path: Path
) -> None:
    private = handle(tmp_path, records(8), SGD)
    speed = Speed(backend=backend)
    session = private.dp_sgd(private._door.plan, [model()], classify, speed=speed)
    with pytest.raises(PrivacyError, match="a pass keeps tensors"):
        session.step()
    assert kinds(tmp_path) == ["plan"]


@pytest.mark.parametrize("model", [KeepsForItself, RemembersATable])
def test_a_model_may_keep_what_no_method_reads(
    model: Callable[[], nn.Module], tmp_path: Path
) -> None:
    private = handle(tmp_path, records(8), SGD)
    bound, speed = model(), Speed(backend="expanded")
    private.dp_sgd(private._door.plan, [bound], classify, speed=speed).step()
    assert not hasattr(bound, "scores")


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Loss], str]] = {
    "parameter": (Averaging, lambda: classify, "the parameter 'mean' of model 0"),
    "value": (mlp, WritesItsValue, "the value 'mean'"),
    "field": (mlp, lambda: WritesItsField(torch.zeros(())), "tensor 0 of the loss's fields"),
}


@pytest.mark.parametrize("written", CASES)
def test_a_pass_that_writes_where_its_method_reads_is_refused(written: str, tmp_path: Path) -> None:
    """Beforehand, on made-up records: no private one is written anywhere."""
    model, loss, named = CASES[written]
    private = handle(tmp_path, records(8), SGD)
    speed = Speed(backend="expanded")
    session = private.dp_sgd(private._door.plan, [model()], loss(), speed=speed)
    with pytest.raises(PrivacyError, match="a pass writes into") as refused:
        session.step({"mean": torch.zeros(())})
    assert named in str(refused.value)
    assert kinds(tmp_path) == ["plan"]


@pytest.mark.parametrize("held", [torch.zeros(3), torch.zeros(3).numpy()], ids=["torch", "numpy"])
def test_what_a_pass_writes_into_a_value_does_not_reach_the_method(held: Any) -> None:
    """Also where it writes on private records alone, which no trial sees."""
    values_on(torch.device("cpu"), {"mean": held})["mean"].fill_(7.0)
    assert held.tolist() == [0.0, 0.0, 0.0]


def test_a_value_that_is_not_a_number_may_be_given(tmp_path: Path) -> None:
    private = handle(tmp_path, records(8), SGD)
    session = private.dp_sgd(private._door.plan, [mlp()], classify)
    session.step({"unused": float("nan")})
    assert kinds(tmp_path) == ["plan", "reserve"]
