"""Copies of models that share their parameters: a pass through one leaves the model as it was."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn


def trainable(models: Sequence[nn.Module]) -> list[nn.Parameter]:
    """The parameters that need a gradient, each once, in a fixed order."""
    seen: dict[int, nn.Parameter] = {}
    for model in models:
        for parameter in model.parameters():
            if parameter.requires_grad:
                seen.setdefault(id(parameter), parameter)
    return list(seen.values())


def twin_of(model: nn.Module, *, shares: bool = True) -> nn.Module:
    """A deep copy for private passes. shares: its parameters are the model's own."""
    known: dict[int, Any] = {id(p): p for p in model.parameters()} if shares else {}
    for module in model.modules():
        # deepcopy refuses a tensor that an earlier pass left there with its autograd history.
        left = (tensor for tensor in _tensors_in(list(vars(module).values())) if not tensor.is_leaf)
        known |= {id(tensor): tensor.detach().clone() for tensor in left}
    return copy.deepcopy(model, known)


@torch.no_grad()
def copy_buffers(model: nn.Module, twin: nn.Module) -> None:
    """Copy the model's buffers into its twin's, in place."""
    for buffer, copied in zip(model.buffers(), twin.buffers(), strict=True):
        copied.copy_(buffer)


def moved_buffers(model: nn.Module, twin: nn.Module) -> list[str]:
    """The names of the buffers in which the twin differs from its model, after a pass."""
    named = zip(model.named_buffers(), twin.buffers(), strict=True)
    return [name for (name, own), other in named if not torch.equal(own, other)]


def _tensors_in(value: object) -> Iterator[torch.Tensor]:
    """The tensors in a list, tuple or dict, nested or not."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(part)
