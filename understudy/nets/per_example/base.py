"""Per-example gradients: the interface of every backend (in Opacus, a `GradSampleModule`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self

import torch

Models = Sequence[Callable[..., Any]]
Values = Mapping[str, torch.Tensor]


class Rows(Protocol):
    """A batch: tensors that all have the same number of rows, one or more for each example."""

    def __len__(self) -> int: ...

    @property
    def tensors(self) -> list[torch.Tensor]: ...

    def with_tensors(self, tensors: Sequence[torch.Tensor]) -> Self:
        """The same batch with other tensors, in the order of `tensors`."""
        ...


Loss = Callable[[Models, Any, Values], torch.Tensor]
"""Maps models, `Rows` and values that all rows share to one value a row."""


class GradientBackend(Protocol):
    """Per-example values and gradients of a loss.

    `batch` holds `multiplicity` (augmentation multiplicity) consecutive rows per example; an
    example's gradient is that of the mean loss over its rows. Returns values [examples] in float32
    and gradients [examples, ...], one tensor for each trainable parameter in the order of
    `trainable`, in the precision in which the backend computed it.
    """

    name: str

    def per_example(
        self, loss: Loss, batch: Rows, values: Values, multiplicity: int
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]: ...
