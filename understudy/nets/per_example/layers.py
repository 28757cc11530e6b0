"""Layers whose backward pass returns the gradient of every record, for parameters expanded over
records; the counterpart of Opacus's registered grad samplers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from understudy.errors import PrivacyError
from understudy.nets.per_example import functions, norms
from understudy.nets.per_example.functions import called


class Expansion:
    """The parameters of one pass, each expanded over the records of its batch.

    A parameter keeps its index in `leaves` from pass to pass, as a compiled pass requires.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._places = {id(p): place for place, p in enumerate(parameters)}
        self.leaves: list[torch.Tensor] = []
        self.rows = 0
        self.records = 0

    @contextmanager
    def over(self, records: int, rows: int, weights: torch.dtype) -> Iterator[list[torch.Tensor]]:
        """Expand the parameters for one pass; yields the leaves to differentiate by.

        Matrices and convolution kernels, and so their gradients, have the type `weights`; scales
        and shifts are few and keep their own.
        """
        self.leaves = [_leaf(p.detach(), records, weights) for p in self._parameters]
        self.rows, self.records = rows, records
        try:
            yield self.leaves
        finally:
            self.leaves = []

    def place(self, parameter: nn.Parameter | None) -> int | None:
        """The index of a parameter in `leaves`; None for one that is not trained."""
        return None if parameter is None else self._places.get(id(parameter))


def _leaf(parameter: torch.Tensor, records: int, weights: torch.dtype) -> torch.Tensor:
    if parameter.ndim > 1:
        parameter = parameter.to(weights)
    if parameter.ndim == 4 and parameter.is_cuda:
        parameter = parameter.contiguous(memory_format=torch.channels_last)
    return parameter.expand(records, *parameter.shape).requires_grad_()


class RecordLayer(nn.Module):
    """One layer of a twin. The original layer is an attribute that torch does not register, so that
    the twin has no parameters of its own."""

    stands_for_another: ClassVar[bool] = True

    def __init__(self, layer: Any, expansion: Expansion) -> None:
        super().__init__()
        object.__setattr__(self, "original", layer)
        self._expansion = expansion
        self._places = expansion.place(layer.weight), expansion.place(_bias(layer))

    @property
    def weight(self) -> torch.Tensor:
        """For an enclosing module that reads the weight's shape or type, as peft's do. Computing
        with it would lose gradients, which the backend's trial would find."""
        layer: Any = self.original
        found: torch.Tensor = layer.weight
        return found

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        expansion = self._expansion
        layer: Any = self.original
        if len(inputs) != expansion.rows:
            raise PrivacyError(
                f"a layer saw {len(inputs)} rows of a batch of {expansion.rows}; its gradients "
                "cannot be told apart by record."
            )
        weight = self._expanded(layer.weight, self._places[0])
        return self.compute(layer, inputs, weight, self._expanded(_bias(layer), self._places[1]))

    def _expanded(self, parameter: Any, place: int | None) -> torch.Tensor | None:
        """The leaf of a parameter; one that is not trained is expanded without gradient."""
        if parameter is None:
            return None
        if place is not None:
            return self._expansion.leaves[place]
        still: torch.Tensor = parameter.detach()
        return still.expand(self._expansion.records, *still.shape)

    def compute(self, layer: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        raise NotImplementedError


class RecordLinear(RecordLayer):
    def compute(self, layer: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        del layer
        return called(functions.Linear.apply, inputs, weight, bias)


class RecordConvolution(RecordLayer):
    def __init__(self, layer: Any, expansion: Expansion) -> None:
        super().__init__(layer, expansion)
        if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
            raise NotImplementedError("per-record convolutions need zero padding given as numbers")
        self._geometry = functions.Geometry(layer)

    def compute(self, layer: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        del layer
        return called(functions.Convolution.apply, inputs, weight, bias, self._geometry)


class RecordGroupNorm(RecordLayer):
    def compute(self, layer: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        return called(norms.GroupNorm.apply, inputs, weight, bias, layer.num_groups, layer.eps)


class RecordLayerNorm(RecordLayer):
    """Scale and shift have per-record gradients; autograd differentiates the normalisation."""

    def compute(self, layer: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        normal = F.layer_norm(inputs, layer.normalized_shape, None, None, layer.eps)
        return called(norms.Affine.apply, normal, weight, bias)


class RecordEmbedding(RecordLayer):
    def __init__(self, layer: Any, expansion: Expansion) -> None:
        super().__init__(layer, expansion)
        if layer.max_norm is not None or layer.padding_idx is not None:
            raise NotImplementedError("per-record embeddings take no max_norm or padding_idx")

    def compute(self, layer: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        del layer, bias
        return called(functions.Embedding.apply, inputs, weight)


RECORD_LAYERS: Mapping[type[nn.Module], type[RecordLayer]] = MappingProxyType(
    {
        nn.Linear: RecordLinear,
        nn.Conv2d: RecordConvolution,
        nn.ConvTranspose2d: RecordConvolution,
        nn.GroupNorm: RecordGroupNorm,
        nn.LayerNorm: RecordLayerNorm,
        nn.Embedding: RecordEmbedding,
    }
)
"""Layers are looked up by exact type, since a subclass may compute something else."""


def _bias(layer: Any) -> nn.Parameter | None:
    found: nn.Parameter | None = getattr(layer, "bias", None)
    return found
