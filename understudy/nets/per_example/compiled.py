"""The expanded backend, compiled: the fastest per-example gradients on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from torch import nn

from understudy.nets.compiling import compiled
from understudy.nets.per_example.expanded import ExpandedBackend, mean_values

CHANNELS_LAST = MappingProxyType({"force_layout_optimization": True})
"""By itself the compiler keeps networks of few channels channels-first, and then copies every image
before every convolution."""


class CompiledBackend(ExpandedBackend):
    """The expanded backend with its forward and backward pass compiled as one graph each.

    The compiler decides which activations to keep and which to recompute. A batch of another size
    is compiled anew. `through` names the backend of `torch.compile`; `reference` computes the same
    eagerly.
    """

    name = "compiled"

    def __init__(self, models: Sequence[nn.Module], *, through: str = "inductor") -> None:
        super().__init__(models)
        self.through, self.reference = through, ExpandedBackend(models)
        options: dict[str, Any] | None = dict(CHANNELS_LAST) if through == "inductor" else None
        self._values: Any = compiled(mean_values, backend=through, fullgraph=True, options=options)
