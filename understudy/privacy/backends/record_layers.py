"""Layers that return the gradient of every record for parameters expanded over records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from understudy.errors import PrivacyError


class Expansion:
    """The parameters of the present pass, each expanded over its records."""

    def __init__(self) -> None:
        self._expanded: dict[int, torch.Tensor] = {}
        self._rows = 0
        self.records = 0

    @contextmanager
    def over(
        self, parameters: Sequence[nn.Parameter], records: int, rows: int
    ) -> Iterator[list[torch.Tensor]]:
        """Expand for one pass; the expanded leaves are what to differentiate by."""
        leaves = [p.detach().expand(records, *p.shape).requires_grad_() for p in parameters]
        self._expanded = {id(p): leaf for p, leaf in zip(parameters, leaves, strict=True)}
        self._rows, self.records = rows, records
        try:
            yield leaves
        finally:
            self._expanded = {}

    def of(self, parameter: nn.Parameter | None) -> torch.Tensor | None:
        """The expanded form; a parameter that does not move is expanded without gradient."""
        if parameter is None:
            return None
        found = self._expanded.get(id(parameter))
        return parameter.detach().expand(self.records, *parameter.shape) if found is None else found

    def check_rows(self, rows: int) -> None:
        if rows != self._rows:
            raise PrivacyError(
                f"a layer saw {rows} rows of a batch of {self._rows}; its gradients cannot be "
                "told apart by record."
            )


class RecordLayer(nn.Module):
    """One layer of a twin. It holds the original out of torch's sight, as a plain attribute,
    so that the twin has no parameter of its own."""

    def __init__(self, layer: Any, expansion: Expansion) -> None:
        super().__init__()
        object.__setattr__(self, "original", layer)
        self._expansion = expansion

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self._expansion.check_rows(len(inputs))
        layer: Any = self.original
        weight, bias = self._expansion.of(layer.weight), self._expansion.of(_bias(layer))
        return self.compute(layer, inputs, weight, bias)

    def compute(self, layer: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        raise NotImplementedError


class RecordLinear(RecordLayer):
    def compute(self, layer: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        del layer
        return _called(_Linear.apply, inputs, weight, bias)


class RecordConvolution(RecordLayer):
    def compute(self, layer: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
            raise NotImplementedError("per-record convolutions need zero padding given as numbers")
        return _called(_Convolution.apply, inputs, weight, bias, _Geometry(layer))


class RecordNorm(RecordLayer):
    """Group and layer normalisation: the scale and shift are per record, the rest autograd's."""

    def compute(self, layer: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        if isinstance(layer, nn.LayerNorm):
            normal = F.layer_norm(inputs, layer.normalized_shape, None, None, layer.eps)
        else:
            normal = F.group_norm(inputs, layer.num_groups, None, None, layer.eps)
            # [channels] against [rows, channels, positions...]
            shape = (self._expansion.records, -1, *(1 for _ in inputs.shape[2:]))
            weight, bias = weight.reshape(shape), bias.reshape(shape)
        return _called(_Affine.apply, normal, weight, bias)


class RecordEmbedding(RecordLayer):
    def compute(self, layer: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        del bias
        if layer.max_norm is not None or layer.padding_idx is not None:
            raise NotImplementedError("per-record embeddings take no max_norm or padding_idx")
        return _called(_Embedding.apply, inputs, weight)


def _called(function: Any, *arguments: Any) -> torch.Tensor:
    result: torch.Tensor = function(*arguments)
    return result


RECORD_LAYERS: Mapping[type[nn.Module], type[RecordLayer]] = MappingProxyType(
    {
        nn.Linear: RecordLinear,
        nn.Conv2d: RecordConvolution,
        nn.ConvTranspose2d: RecordConvolution,
        nn.GroupNorm: RecordNorm,
        nn.LayerNorm: RecordNorm,
        nn.Embedding: RecordEmbedding,
    }
)
"""By exact type: a subclass may compute something else."""


def _bias(layer: Any) -> nn.Parameter | None:
    found: nn.Parameter | None = getattr(layer, "bias", None)
    return found


class _Geometry:
    """How a convolution slides."""

    def __init__(self, layer: nn.Conv2d | nn.ConvTranspose2d) -> None:
        self.stride, self.padding = list(layer.stride), [int(p) for p in layer.padding]
        self.dilation, self.groups = list(layer.dilation), layer.groups
        self.transposed = isinstance(layer, nn.ConvTranspose2d)
        self.extra = [int(p) for p in layer.output_padding]
        self.kernel = list(layer.kernel_size)

    def patches(self, images: torch.Tensor) -> torch.Tensor:
        """[rows, channels * kernel, positions]: what the kernel sees at each position."""
        down, across = self.padding
        padded = F.pad(images, (across, across, down, down))
        # A view and one copy: F.unfold takes one kernel launch for every image.
        windows = padded.as_strided(*self._windows(padded))
        return windows.reshape(len(images), -1, math.prod(windows.shape[-2:]))

    def _windows(self, padded: torch.Tensor) -> tuple[list[int], list[int]]:
        """Shape and strides of [rows, channels, kernel, kernel, positions, positions]."""
        steps, reach = padded.stride(), zip(self.kernel, self.dilation, strict=True)
        spans = [(k - 1) * d + 1 for k, d in reach]
        counts = [
            (size - span) // stride + 1
            for size, span, stride in zip(padded.shape[2:], spans, self.stride, strict=True)
        ]
        inner = [step * d for step, d in zip(steps[2:], self.dilation, strict=True)]
        outer = [step * stride for step, stride in zip(steps[2:], self.stride, strict=True)]
        shape = [*padded.shape[:2], *self.kernel, *counts]
        return shape, [*steps[:2], *inner, *outer]


def _lowered(tensor: torch.Tensor) -> torch.Tensor:
    """In the precision that autocast asks for: functions of our own must ask themselves."""
    kind = tensor.device.type
    if torch.is_autocast_enabled(kind) and tensor.is_floating_point():
        return tensor.to(torch.get_autocast_dtype(kind))
    return tensor


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        inputs, one = _lowered(inputs), _lowered(weight[0])
        ctx.save_for_backward(inputs, one)
        ctx.records, ctx.biased = len(weight), bias is not None
        return F.linear(inputs, one, None if bias is None else bias[0].to(one.dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        inputs, weight = ctx.saved_tensors
        (slope,) = gradients
        onwards = slope @ weight if ctx.needs_input_grad[0] else None
        rows = slope.reshape(ctx.records, -1, slope.shape[-1])
        seen = inputs.reshape(ctx.records, -1, inputs.shape[-1])
        moved = torch.bmm(rows.mT, seen).float() if ctx.needs_input_grad[1] else None
        shifted = rows.sum(dim=1, dtype=torch.float32) if ctx.biased else None
        return onwards, moved, shifted


class _Convolution(torch.autograd.Function):
    """A transposed convolution is the same with its input and its slope exchanged."""

    @staticmethod
    def forward(
        ctx: Any, inputs: torch.Tensor, weight: Any, bias: Any, geometry: _Geometry
    ) -> torch.Tensor:
        inputs, one = _lowered(inputs), _lowered(weight[0])
        ctx.save_for_backward(inputs, one)
        ctx.records, ctx.biased, ctx.geometry = len(weight), bias is not None, geometry
        shift = None if bias is None else bias[0].to(one.dtype)
        g = geometry
        settings = (g.stride, g.padding, g.dilation, g.transposed, g.extra, g.groups)
        return _called(torch.ops.aten.convolution, inputs, one, shift, *settings)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        inputs, weight = ctx.saved_tensors
        (slope,) = gradients
        g: _Geometry = ctx.geometry
        onwards = None
        if ctx.needs_input_grad[0]:
            settings = (g.stride, g.padding, g.dilation, g.transposed, g.extra, g.groups)
            onwards = torch.ops.aten.convolution_backward(
                slope, inputs, weight, None, *settings, [True, False, False]
            )[0]
        moved = None
        if ctx.needs_input_grad[1]:
            whole, kept = (slope, inputs) if g.transposed else (inputs, slope)
            moved = _kernel_gradients(whole, kept, ctx.records, g, weight.shape)
        shifted = None
        if ctx.biased:
            shifted = slope.reshape(ctx.records, -1, *slope.shape[1:])
            shifted = shifted.sum(dim=(1, 3, 4), dtype=torch.float32)
        return onwards, moved, shifted, None


def _kernel_gradients(
    whole: torch.Tensor, kept: torch.Tensor, records: int, geometry: _Geometry, shape: torch.Size
) -> torch.Tensor:
    """[records, *shape]: products of patches of one side with values of the other."""
    groups = geometry.groups
    patches = geometry.patches(whole)
    positions = patches.shape[-1]
    draws = len(whole) // records
    left = kept.reshape(records, draws, groups, -1, positions)
    right = patches.reshape(records, draws, groups, -1, positions)
    left = left.permute(0, 2, 3, 1, 4).reshape(records * groups, -1, draws * positions)
    right = right.permute(0, 2, 1, 4, 3).reshape(records * groups, draws * positions, -1)
    return torch.bmm(left, right).float().reshape(records, *shape)


class _Affine(torch.autograd.Function):
    """Scale and shift; weight and bias are [records, ...] and broadcast over a record's rows."""

    @staticmethod
    def forward(ctx: Any, normal: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        ctx.save_for_backward(normal, weight[:1])
        ctx.shape, ctx.biased = weight.shape, bias is not None
        scaled: torch.Tensor = normal * weight[0]
        return scaled if bias is None else scaled + bias[0]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        normal, weight = ctx.saved_tensors
        (slope,) = gradients
        onwards = slope * weight[0] if ctx.needs_input_grad[0] else None
        moved = _summed(slope.float() * normal, ctx.shape) if ctx.needs_input_grad[1] else None
        shifted = _summed(slope, ctx.shape) if ctx.biased else None
        return onwards, moved, shifted


def _summed(values: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Sum over a record's rows and over the dimensions in which its parameter is shared."""
    by_record = values.reshape(shape[0], -1, *values.shape[1:])
    first = by_record.ndim - len(shape) + 1
    shared = [*range(1, first), *(first + i for i, size in enumerate(shape[1:]) if size == 1)]
    return by_record.sum(dim=shared, dtype=torch.float32).reshape(shape)


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, codes: torch.Tensor, weight: Any) -> torch.Tensor:
        ctx.save_for_backward(codes)
        ctx.shape = weight.shape
        return F.embedding(codes, weight[0])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (codes,) = ctx.saved_tensors
        records, _, width = ctx.shape
        slope = gradients[0].float().reshape(records, -1, width)
        chosen = codes.reshape(records, -1, 1).expand(-1, -1, width)
        return None, slope.new_zeros(ctx.shape).scatter_add_(1, chosen, slope)
