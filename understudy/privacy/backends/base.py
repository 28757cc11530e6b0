"""What every gradient backend does, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import nn

from understudy.privacy.batch import Batch

Loss = Callable[[Sequence[Callable[..., Any]], Batch], torch.Tensor]
"""From models (as callables) and a batch to one value a row."""


class GradientBackend(Protocol):
    """Per-record values and gradients of a loss.

    `batch` holds `multiplicity` consecutive rows per record, with draws of their own; a
    record's gradient is that of the mean over its rows. Returns values [records] and
    gradients [records, width], float32, parameters in the order of `trainable`.
    """

    name: str

    def per_record(
        self, loss: Loss, batch: Batch, multiplicity: int
    ) -> tuple[torch.Tensor, torch.Tensor]: ...


def trainable(models: Sequence[nn.Module]) -> list[nn.Parameter]:
    """The parameters that training moves, each once, in a fixed order."""
    seen: dict[int, nn.Parameter] = {}
    for model in models:
        for parameter in model.parameters():
            if parameter.requires_grad:
                seen.setdefault(id(parameter), parameter)
    return list(seen.values())
