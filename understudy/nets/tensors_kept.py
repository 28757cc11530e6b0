"""Whether some work keeps tensors that it made somewhere that outlives it.

A hook, a global or a class can hold the activations of a pass; a copy of the model cannot see that.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def keeps_tensors(start: Callable[[], tuple[list[torch.Tensor], Callable[[], object]]]) -> bool:
    """Whether a tensor outlives the work that had it.

    `start` returns tensors that the work gets, and the work; nothing else may refer to either, so
    that all of them, and what the work makes, are gone afterwards.
    """
    given, work = start()
    seen = [weakref.ref(tensor) for tensor in given]
    del given
    with _Making(seen):
        work()
    del work
    gc.collect()
    return any(tensor() is not None for tensor in seen)


class _Making(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every tensor that an operation returns, without keeping it alive."""

    def __init__(self, seen: list[weakref.ref[torch.Tensor]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        made = (leaf for leaf in tree_leaves(found) if isinstance(leaf, torch.Tensor))
        self._seen += map(weakref.ref, made)
        return found
