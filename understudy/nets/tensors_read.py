"""Whether some work reads tensors besides those that are known.

A CUDA graph reads the addresses it was captured with. A tensor that nothing keeps alive may be
freed, and its memory reused, for private records as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def reads_unknown_tensors(
    work: Callable[[], object], known: Sequence[torch.Tensor], models: Sequence[nn.Module]
) -> bool:
    """Whether the work reads a tensor that is neither known nor a model's, nor computed from
    these."""
    held = [tensor for model in models for tensor in _tensors_of(model)]
    reading = _Reading([*known, *held])
    with reading, torch.enable_grad():
        work()
    return reading.others


def _tensors_of(model: nn.Module) -> list[torch.Tensor]:
    found = [*model.parameters(), *model.buffers()]
    for module in model.modules():
        found += (held for held in vars(module).values() if isinstance(held, torch.Tensor))
    return found


class _Reading(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds what operations return to the known tensors, and notes when one reads another tensor."""

    def __init__(self, known: Sequence[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.others = False
        self._held = list(known)
        self._places = {_place(tensor) for tensor in known}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten.lift_fresh.default:  # a number becomes a tensor at each call
            read = _tensors((args, kwargs or {}))
            self.others |= any(_place(tensor) not in self._places for tensor in read)
        found = func(*args, **(kwargs or {}))
        made = _tensors(found)
        self._held += made  # so that their memory is not reused meanwhile
        self._places |= {_place(tensor) for tensor in made}
        return found


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
