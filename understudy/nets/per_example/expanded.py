"""Per-example gradients by expanding every parameter over the examples of a batch.

The expanded parameter [examples, ...] is a view and takes no memory. A layer's forward pass uses
its first entry; its backward pass returns the gradient of every entry: one matrix product over an
example's rows and positions. So autograd itself returns per-example gradients, without hooks, and
their memory does not grow with the augmentation multiplicity. Opacus's mode `ew` uses the same idea
through torch's `ExpandedWeight`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from understudy.nets.per_example.base import Loss, Models, Rows, Values
from understudy.nets.per_example.layers import RECORD_LAYERS, Expansion
from understudy.nets.per_example.twins import copy_buffers, trainable, twin_of


class ExpandedBackend:
    """Runs twins whose layers (`RECORD_LAYERS`) take expanded parameters; refuses other layers that
    have trainable parameters."""

    name = "expanded"

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self._models = list(models)
        self._expansion = Expansion(trainable(models))
        self._twins = [_twin(model, self._expansion) for model in models]
        self._values = mean_values

    def per_example(
        self, loss: Loss, batch: Rows, values: Values, multiplicity: int
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        for model, twin in zip(self._models, self._twins, strict=True):
            copy_buffers(model, twin)
        examples = len(batch) // multiplicity
        weights = _precision(batch.tensors[0].device)
        with self._expansion.over(examples, len(batch), weights) as leaves:
            with torch.enable_grad():
                found = self._values(loss, self._twins, batch, values, examples)
            gradients = _gradients(found, leaves)
        return found.detach().float(), gradients


def mean_values(
    loss: Loss, models: Models, batch: Rows, values: Values, examples: int
) -> torch.Tensor:
    """The loss of each example: the mean over its rows, in float32."""
    return loss(models, batch, values).float().reshape(examples, -1).mean(dim=1)


def _precision(device: torch.device) -> torch.dtype:
    """The type of weights and their gradients: under autocast, that of the products behind them."""
    if torch.is_autocast_enabled(device.type):
        return torch.get_autocast_dtype(device.type)
    return torch.float32


def _gradients(values: torch.Tensor, leaves: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    if not values.requires_grad:
        return tuple(torch.zeros_like(leaf) for leaf in leaves)
    found = torch.autograd.grad(values.sum(), leaves, allow_unused=True)
    return tuple(
        torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, found, strict=True)
    )


def _twin(model: nn.Module, expansion: Expansion) -> nn.Module:
    """A copy of the model that shares its parameters, with its layers replaced by record layers."""
    twin = _with_record_layers(twin_of(model), expansion)
    for name, module in _unaware(twin):
        raise NotImplementedError(
            f"no per-record gradients for {name or 'the model itself'} ({type(module).__name__})"
        )
    return twin


def _with_record_layers(module: nn.Module, expansion: Expansion) -> nn.Module:
    kind = RECORD_LAYERS.get(type(module))
    if kind is not None and trainable([module]):
        return kind(module, expansion)
    for name, child in module.named_children():
        setattr(module, name, _with_record_layers(child, expansion))
    return module


def _unaware(twin: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules with trainable parameters of their own that are no record layers."""
    for name, module in twin.named_modules():
        if any(p.requires_grad for p in module.parameters(recurse=False)):
            yield name, module
