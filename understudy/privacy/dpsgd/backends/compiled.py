"""Per-record gradients of whole networks by compiled kernels, on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from torch import nn

from understudy.privacy.dpsgd.backends.expanded import ExpandedBackend, mean_values
from understudy.privacy.dpsgd.compiling import compiled
from understudy.privacy.sums.gradient_pieces import FusedSums

CHANNELS_LAST = MappingProxyType({"force_layout_optimization": True})
"""The compiler leaves networks of few channels as they come, and then copies every image before
every convolution."""


class CompiledBackend(ExpandedBackend):
    """The expanded backend with its forward and backward pass compiled as one graph each.

    What the backward pass needs is kept, or computed again, as the compiler finds cheaper.
    A graph is for one shape: a micro-batch of another size is compiled anew. `sums` add its
    gradients up, compiled too.
    """

    name = "compiled"

    def __init__(self, models: Sequence[nn.Module], *, through: str = "inductor") -> None:
        super().__init__(models)
        self.reference = ExpandedBackend(models)
        options: dict[str, Any] | None = dict(CHANNELS_LAST) if through == "inductor" else None
        self.sums = FusedSums(through)
        self._values: Any = compiled(mean_values, backend=through, fullgraph=True, options=options)
