"""Which tensors a loss reads besides those it is given.

A CUDA graph reads memory where tensors lay when it was captured. A tensor that nobody holds may be
freed, and somebody's records come to lie there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.loss import BoundLoss, Values


def reads_others(
    loss: BoundLoss, models: Sequence[nn.Module], batch: Batch, values: Values
) -> bool:
    """Whether a loss reads memory of a tensor that is none of its own, its models' or its
    arguments'."""
    held = [tensor for model in models for tensor in _tensors_of(model)]
    reading = _Reading([*batch.tensors, *values.values(), *loss.tensors, *held])
    with reading, torch.enable_grad():
        loss.call(models, batch, values)
    return reading.others


def _tensors_of(model: nn.Module) -> list[torch.Tensor]:
    found = [*model.parameters(), *model.buffers()]
    for module in model.modules():
        found += (held for held in vars(module).values() if isinstance(held, torch.Tensor))
    return found


class _Reading(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows what is made of known tensors, and notes what is not."""

    def __init__(self, known: Sequence[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.others = False
        self._held = list(known)
        self._places = {_place(tensor) for tensor in known}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten.lift_fresh.default:  # a number, made into a tensor each time
            read = _tensors((args, kwargs or {}))
            self.others |= any(_place(tensor) not in self._places for tensor in read)
        found = func(*args, **(kwargs or {}))
        made = _tensors(found)
        self._held += made  # so that nothing else comes to lie there meanwhile
        self._places |= {_place(tensor) for tensor in made}
        return found


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
