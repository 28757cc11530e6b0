"""Per-example gradients by `torch.func`: vmap over examples of the gradient of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from understudy.errors import PrivacyError
from understudy.nets.per_example.base import Loss, Rows, Values
from understudy.nets.per_example.twins import copy_buffers, twin_of

Parameters = list[dict[str, torch.Tensor]]


class VmapBackend:
    """Calls the loss on one example at a time under vmap, so it supports any layer that vmap does;
    Opacus's `functorch` mode does so layer by layer. Passes run through twins and leave the models
    as they are."""

    name = "vmap"

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self._models = list(models)
        self._twins = [twin_of(model) for model in models]

    def per_example(
        self, loss: Loss, batch: Rows, values: Values, multiplicity: int
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        for model, twin in zip(self._models, self._twins, strict=True):
            copy_buffers(model, twin)
        moving, fixed = self._split_parameters()

        def value(parameters: Parameters, one: list[torch.Tensor]) -> torch.Tensor:
            calls = [
                _bound(twin, {**still, **move})
                for twin, still, move in zip(self._twins, fixed, parameters, strict=True)
            ]
            return loss(calls, batch.with_tensors(one), values).mean()

        rows = [tensor.reshape(-1, multiplicity, *tensor.shape[1:]) for tensor in batch.tensors]
        try:
            each = vmap(grad_and_value(value), in_dims=(None, 0), randomness="error")
            grads, found = each(moving, rows)
        except RuntimeError as error:
            if "randomness" in str(error):
                raise PrivacyError(
                    "the loss draws its own randomness; use batch.draws instead."
                ) from error
            raise
        gradients = tuple(g.detach() for model in grads for g in model.values())
        return found.detach().float(), gradients

    def _split_parameters(self) -> tuple[Parameters, Parameters]:
        """Per model: the parameters to differentiate by, and the other parameters and buffers."""
        moving, fixed = [], []
        for twin in self._twins:
            named = dict(twin.named_parameters())
            moving.append({k: p.detach() for k, p in named.items() if p.requires_grad})
            still = {k: p.detach() for k, p in named.items() if not p.requires_grad}
            fixed.append({**still, **{k: b.detach() for k, b in twin.named_buffers()}})
        return moving, fixed


def _bound(model: nn.Module, parameters: dict[str, torch.Tensor]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        return functional_call(model, parameters, arguments, named)

    return call
