"""Models are bound as they are: what a method turns later is refused, and no pass stays in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.dpsgd.test_engine import BACKENDS, Case, Tracking, engine_of
from tests.privacy.rig import classify, mlp, records
from understudy.errors import PrivacyError
from understudy.nets.per_example.twins import copy_buffers, twin_of
from understudy.privacy.dpsgd.models import BoundModels


class Faded(nn.Module):
    """Attributes that are neither parameters nor buffers, one in a dict as peft keeps its own."""

    offset: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(16, 3), nn.GroupNorm(1, 3)
        self.alpha, self.shift, self.scaling = 0.5, torch.zeros(3), {"default": 1.0}
        self.register_buffer("offset", torch.zeros(3))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scale = self.alpha * self.scaling["default"]
        scores: torch.Tensor = scale * self.linear(images.flatten(1)) + self.shift + self.offset
        return scores if self.training else 2.0 * scores


def _set(name: str, value: Any) -> Callable[[Faded], object]:
    return lambda model: setattr(model, name, value)


TURNS: dict[str, tuple[Callable[[Faded], object], str]] = {
    "an attribute": (_set("alpha", 1.5), "attribute 'alpha'"),
    "one of several": (lambda m: m.scaling.update(default=2.0), "attribute 'scaling'"),
    "a new attribute": (_set("stage", 1), "attribute 'stage'"),
    "a tensor": (_set("shift", torch.ones(3)), "attribute 'shift'"),
    "a tensor in place": (lambda m: m.shift.add_(1), "attribute 'shift'"),
    "the mode": (lambda m: m.eval(), "attribute 'training'"),
    "a layer's mode": (lambda m: m.norm.eval(), "attribute 'training' of layer 'norm'"),
    "a layer": (_set("norm", nn.LayerNorm(3)), "layer 'norm'"),
    "a parameter": (
        lambda m: setattr(m.linear, "weight", nn.Parameter(torch.zeros(3, 16))),
        "parameter 'weight' of layer 'linear'",
    ),
    "what is trained": (lambda m: m.linear.bias.requires_grad_(False), "parameter 'bias'"),
    "a hook": (lambda m: m.register_forward_hook(lambda *_: None), "_forward_hooks"),
    "a buffer's form": (_set("offset", torch.zeros(1)), "the form of buffer 'offset'"),
}


@pytest.mark.parametrize("turn", TURNS)
def test_a_model_that_is_turned_after_it_was_bound_is_refused_by_name(turn: str) -> None:
    model = Faded()
    engine = engine_of(Case(lambda: [model], classify), "auto", records(6))
    engine.run_trials({})
    engine.clipped_sum(np.arange(6), {})
    change, named = TURNS[turn]
    change(model)
    with pytest.raises(PrivacyError, match="changed after dp_sgd bound the model") as refused:
        engine.run_trials({})
    assert named in str(refused.value)


def test_a_model_that_is_turned_and_turned_back_is_as_it_was() -> None:
    """As a GAN's discriminator, which stands still while the generator learns."""
    model = Faded()
    bound = BoundModels([model])
    model.requires_grad_(False).eval()
    model.requires_grad_(True).train()
    bound.require_unchanged()


class Turned(nn.Module):
    """Mixes records once it is told to: a statistic of a batch that is faded in, say."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.stage = nn.Linear(16, 3), 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.linear(images.flatten(1))
        return scores - scores.mean(dim=0) if self.stage else scores


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_method_turns_within_a_block_reaches_no_private_pass(backend: str) -> None:
    """Passes go through twins: until the next block refuses it, the model is what was bound."""
    torch.manual_seed(0)
    model = Turned()
    engine = engine_of(Case(lambda: [model], classify), backend, records(6))
    before = engine.clipped_sum(np.arange(6), {}).total
    model.stage = 1
    assert torch.equal(engine.clipped_sum(np.arange(6), {}).total, before), "it reached a pass"
    with pytest.raises(PrivacyError, match="attribute 'stage'"):
        engine.run_trials({})


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_passes_that_move_a_buffer_are_refused_by_name(backend: str) -> None:
    engine = engine_of(Case(lambda: [Tracking()], classify), backend, records(6))
    with pytest.raises(PrivacyError, match="moves the buffer 'seen'"):
        engine.run_trials({})
    seen: Any = engine.bound.models[0].seen
    assert not seen.any(), "the model itself saw a pass"


@pytest.mark.parametrize("backend", BACKENDS)
def test_buffers_have_the_values_that_they_have_now(backend: str) -> None:
    model = Faded()
    case = Case(lambda: [model], classify)
    engine = engine_of(case, backend, records(6))
    engine.clipped_sum(np.arange(6), {})
    model.offset.copy_(torch.tensor([3.0, 0.0, -3.0]))
    moved = engine.clipped_sum(np.arange(6), {}).total
    fresh = engine_of(case, backend, records(6)).clipped_sum(np.arange(6), {}).total
    assert torch.equal(moved, fresh)


def test_a_twin_shares_parameters_and_nothing_else() -> None:
    model = Faded()
    twin: Any = twin_of(model)
    assert all(a is b for a, b in zip(model.parameters(), twin.parameters(), strict=True))
    assert twin.offset is not model.offset
    assert twin.scaling is not model.scaling
    place = twin.offset.data_ptr()
    model.offset.fill_(2.0)
    copy_buffers(model, twin)
    assert twin.offset.tolist() == [2.0] * 3
    assert twin.offset.data_ptr() == place, "a CUDA graph reads where it lay"


def test_models_that_are_only_read_may_hold_fixed_statistics() -> None:
    """As a generator in eval mode, whose images are inside a record's clip."""
    reader = nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.BatchNorm1d(3))
    with pytest.raises(PrivacyError, match="BatchNorm1d"):
        BoundModels([mlp(), reader.eval()])
    BoundModels([mlp(), reader.requires_grad_(False)])
    with pytest.raises(PrivacyError, match=r"BatchNorm1d.*eval\(\)"):
        BoundModels([mlp(), reader.train()])
