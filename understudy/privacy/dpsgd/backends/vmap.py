"""Per-record gradients by `torch.func`: vmap over records of the gradient of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from understudy.errors import PrivacyError
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.backends.base import Loss, twin_of

Parameters = list[dict[str, torch.Tensor]]


class VmapBackend:
    """Passes batches of one record to the loss, so it needs nothing of the layers; through twins
    of the models as they are, so that the models themselves do not learn of it."""

    name = "vmap"

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self._models = list(models)

    def per_record(
        self, loss: Loss, batch: Batch, multiplicity: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        twins = [twin_of(model) for model in self._models]
        moving, fixed = self._split_parameters()

        def value(parameters: Parameters, one: dict[str, Any]) -> torch.Tensor:
            calls = [
                _bound(twin, {**still, **move})
                for twin, still, move in zip(twins, fixed, parameters, strict=True)
            ]
            return loss(calls, _batch_of(one, batch.label)).mean()

        rows = _by_record(batch, multiplicity)
        try:
            each = vmap(grad_and_value(value), in_dims=(None, 0), randomness="error")
            grads, values = each(moving, rows)
        except RuntimeError as error:
            if "randomness" in str(error):
                raise PrivacyError(
                    "the loss draws its own randomness; use batch.draws instead."
                ) from error
            raise
        flat = [g.reshape(len(values), -1).float() for model in grads for g in model.values()]
        return values.detach().float(), torch.cat(flat, dim=1).detach()

    def _split_parameters(self) -> tuple[Parameters, Parameters]:
        """Per model: what is differentiated (each shared parameter once), and the rest."""
        seen: set[int] = set()
        moving: Parameters = []
        fixed: Parameters = []
        for model in self._models:
            named = dict(model.named_parameters())
            move = {
                k: p.detach() for k, p in named.items() if p.requires_grad and id(p) not in seen
            }
            if any(p.requires_grad and id(p) in seen for p in named.values()):
                raise PrivacyError("two models share a parameter; give it to one of them only.")
            seen.update(id(p) for p in named.values())
            moving.append(move)
            still = {k: p.detach() for k, p in named.items() if k not in move}
            # Copies: what a forward pass writes into its buffers must not stay in the model.
            buffers = {k: b.detach().clone() for k, b in model.named_buffers()}
            fixed.append({**still, **buffers})
        return moving, fixed


def _bound(model: nn.Module, parameters: dict[str, torch.Tensor]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        return functional_call(model, parameters, arguments, named)

    return call


def _by_record(batch: Batch, multiplicity: int) -> dict[str, Any]:
    def split(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.reshape(-1, multiplicity, *tensor.shape[1:])

    return {
        "features": split(batch.features),
        "attributes": {k: split(v) for k, v in batch.attributes.items()},
        "draws": {k: split(v) for k, v in batch.draws.items()},
    }


def _batch_of(one: dict[str, Any], label: str | None) -> Batch:
    return Batch(one["features"], one["attributes"], one["draws"], label)
