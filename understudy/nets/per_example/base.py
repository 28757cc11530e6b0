"""Per-example gradients: what every way to compute them does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self

import torch

Models = Sequence[Callable[..., Any]]
Values = Mapping[str, torch.Tensor]


class Rows(Protocol):
    """A batch: some tensors that all have one row for each example, or several."""

    def __len__(self) -> int: ...

    @property
    def tensors(self) -> list[torch.Tensor]: ...

    def with_tensors(self, tensors: Sequence[torch.Tensor]) -> Self:
        """The same batch with these in their place."""
        ...


Loss = Callable[[Models, Any, Values], torch.Tensor]
"""From models, `Rows`, and values that all rows share, to one value a row."""


class GradientBackend(Protocol):
    """Per-example values and gradients of a loss.

    `batch` holds `multiplicity` consecutive rows per example; an example's gradient is that of the
    mean over its rows. Returns values [examples] in float32 and the gradients [examples, ...], one
    tensor for each trainable parameter in the order of `trainable`, in the precision in which it
    was computed.
    """

    name: str

    def per_example(
        self, loss: Loss, batch: Rows, values: Values, multiplicity: int
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]: ...
