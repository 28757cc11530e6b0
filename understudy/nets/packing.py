"""Modules and optimisers as flat named tensors, for checkpoints and saved synthesizers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

Tensors = dict[str, torch.Tensor]


def pack_module(prefix: str, module: nn.Module) -> Tensors:
    return {f"{prefix}.{name}": value for name, value in module.state_dict().items()}


def unpack_module(
    prefix: str, module: nn.Module, tensors: Mapping[str, torch.Tensor], assign: bool = False
) -> None:
    """Load what `pack_module` gave; missing or extra names are an error.

    assign: the module takes the tensors themselves, as one on the meta device must.
    """
    module.load_state_dict(_under(prefix, tensors), assign=assign)


def pack_optimizer(prefix: str, optimizer: torch.optim.Optimizer) -> Tensors:
    """The optimiser's moments; its settings are the caller's to build again."""
    state: Mapping[int, Mapping[str, Any]] = optimizer.state_dict()["state"]
    return {
        f"{prefix}.{index}.{name}": torch.as_tensor(value)
        for index, values in state.items()
        for name, value in values.items()
    }


def unpack_optimizer(
    prefix: str, optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]
) -> None:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in _under(prefix, tensors).items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value.clone()
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _under(prefix: str, tensors: Mapping[str, torch.Tensor]) -> Tensors:
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}
