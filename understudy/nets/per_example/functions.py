"""Autograd functions whose gradient by an expanded parameter is that of every record.

Each takes parameters [records, ...] and computes with the first entry. Its backward pass returns
the gradient of every record: one product over the record's augmentations and positions, accumulated
in float32 and rounded once to the type of the expanded parameter.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

_LARGE = 2**15
"""Values a record's windows hold: below it, a kernel call for every record takes longer than
copying the windows out (measured on one core)."""

_RECORDS_AS_GROUPS = 16
"""The quickest of 2, 4, 16 and 64, for 32 and 64 channels of 28x28 and 14x14 (one core)."""


def called(function: Any, *arguments: Any) -> torch.Tensor:
    result: torch.Tensor = function(*arguments)
    return result


def _lowered(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in autocast's precision: torch does not apply autocast to custom functions."""
    kind = tensor.device.type
    if torch.is_autocast_enabled(kind) and tensor.is_floating_point():
        return tensor.to(torch.get_autocast_dtype(kind))
    return tensor


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        inputs, one = _lowered(inputs), _lowered(weight[0])
        ctx.save_for_backward(inputs, one)
        ctx.records, ctx.dtype = len(weight), weight.dtype
        ctx.biased = bias is not None
        return F.linear(inputs, one, None if bias is None else bias[0].to(one.dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        inputs, weight = ctx.saved_tensors
        (slope,) = gradients
        onwards = slope @ weight if ctx.needs_input_grad[0] else None
        rows = slope.reshape(ctx.records, -1, slope.shape[-1])
        seen = inputs.reshape(ctx.records, -1, inputs.shape[-1])
        moved = torch.bmm(rows.mT, seen).to(ctx.dtype) if ctx.needs_input_grad[1] else None
        shifted = rows.sum(dim=1, dtype=torch.float32) if ctx.biased else None
        return onwards, moved, shifted


class Geometry:
    """The stride, padding, dilation and groups of a convolution."""

    def __init__(self, layer: nn.Conv2d | nn.ConvTranspose2d) -> None:
        self.stride, self.padding = list(layer.stride), [int(p) for p in layer.padding]
        self.dilation, self.groups = list(layer.dilation), layer.groups
        self.transposed = isinstance(layer, nn.ConvTranspose2d)
        self.extra = [int(p) for p in layer.output_padding]
        self.kernel = list(layer.kernel_size)
        self.own_kernel = self.plain and layer.weight.is_cuda and _own_kernel()

    @property
    def plain(self) -> bool:
        """Neither grouped nor dilated, and a kernel of more than one position."""
        return self.groups == 1 and self.dilation == [1, 1] and self.kernel != [1, 1]

    @property
    def settings(self) -> tuple[Any, ...]:
        """The arguments of `aten.convolution`, in its order."""
        return self.stride, self.padding, self.dilation, self.transposed, self.extra, self.groups

    def windows(self, images: torch.Tensor) -> torch.Tensor:
        """The windows under the kernel, [rows, channels, down, across, kernel, kernel], as a view.

        F.unfold would launch one GPU kernel for every image.
        """
        down, across = self.padding
        seen = F.pad(images, (across, across, down, down)) if down or across else images
        far = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        seen = seen.unfold(2, far[0], self.stride[0]).unfold(3, far[1], self.stride[1])
        return seen[..., :: self.dilation[0], :: self.dilation[1]]


class Convolution(torch.autograd.Function):
    """A convolution; a transposed one has input and output gradient exchanged."""

    @staticmethod
    def forward(
        ctx: Any, inputs: torch.Tensor, weight: Any, bias: Any, geometry: Geometry
    ) -> torch.Tensor:
        inputs, one = _lowered(inputs), _lowered(weight[0])
        ctx.save_for_backward(inputs, one)
        ctx.records, ctx.dtype = len(weight), weight.dtype
        ctx.biased, ctx.geometry = bias is not None, geometry
        shift = None if bias is None else bias[0].to(one.dtype)
        return called(torch.ops.aten.convolution, inputs, one, shift, *geometry.settings)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        inputs, weight = ctx.saved_tensors
        (slope,) = gradients
        geometry: Geometry = ctx.geometry
        onwards = moved = shifted = None
        if ctx.needs_input_grad[0]:
            onwards = torch.ops.aten.convolution_backward(
                slope, inputs, weight, None, *geometry.settings, [True, False, False]
            )[0]
        if ctx.needs_input_grad[1]:
            if _large(inputs, ctx.records, geometry):
                moved = _by_torch(slope, inputs, weight, ctx.records, geometry)
            else:
                whole, kept = (slope, inputs) if geometry.transposed else (inputs, slope)
                moved = _kernel_gradients(whole, kept, ctx.records, geometry)
            moved = moved.reshape(ctx.records, *weight.shape).to(ctx.dtype)
        if ctx.biased:
            shifted = slope.reshape(ctx.records, -1, *slope.shape[1:])
            shifted = shifted.sum(dim=(1, 3, 4), dtype=torch.float32)
        return onwards, moved, shifted, None


def _large(inputs: torch.Tensor, records: int, geometry: Geometry) -> bool:
    """Whether, on a CPU, a record's windows are too large to be copied out."""
    seen = inputs.numel() // records * math.prod(geometry.kernel)
    return not inputs.is_cuda and inputs.dtype == torch.float32 and seen >= _LARGE


def _by_torch(
    slope: torch.Tensor,
    inputs: torch.Tensor,
    weight: torch.Tensor,
    records: int,
    geometry: Geometry,
) -> torch.Tensor:
    """[records, ...] by torch's own kernel, one record with all its augmentations at a time. Where
    a record is one image, several records become the groups of one convolution, which is faster."""
    draws = len(inputs) // records
    many = _RECORDS_AS_GROUPS if draws == 1 else 1
    *sliding, groups = geometry.settings
    found = []
    sides = (torch.split(side, many * draws) for side in (slope, inputs))
    for after, before in zip(*sides, strict=True):
        some = len(before) // draws
        found.append(
            torch.ops.aten.convolution_backward(
                after.reshape(draws, -1, *after.shape[2:]),
                before.reshape(draws, -1, *before.shape[2:]),
                weight.new_empty(some * len(weight), *weight.shape[1:]),  # its shape counts
                None,
                *sliding,
                some * groups,
                [False, True, False],
            )[1].reshape(some, *weight.shape)
        )
    return torch.cat(found)


def _own_kernel() -> bool:
    """Whether `cuda_kernels` can be imported: it needs triton, which comes with the compiler."""
    try:
        from understudy.nets.per_example import cuda_kernels
    except ImportError:
        return False
    return bool(cuda_kernels)


def _kernel_gradients(
    whole: torch.Tensor, kept: torch.Tensor, records: int, geometry: Geometry
) -> torch.Tensor:
    """[records, kept channels, channels of a group, kernel positions]: products of the windows of
    one side with the values of the other, summed over a record's augmentations and positions."""
    if geometry.own_kernel and whole.dtype == torch.bfloat16:
        how = (geometry.kernel, geometry.stride, geometry.padding)
        found = called(torch.ops.understudy.kernel_gradients, whole, kept, records, *how)
        return found.mT
    products = _channels_last if whole.is_cuda else _channels_first
    return products(whole, kept, records, geometry)


def _channels_first(
    whole: torch.Tensor, kept: torch.Tensor, records: int, geometry: Geometry
) -> torch.Tensor:
    """The products for images that are channels-first in memory."""
    groups, draws = geometry.groups, len(whole) // records
    left = kept.reshape(records, draws, groups, -1, kept.shape[2] * kept.shape[3])
    windows = geometry.windows(whole).permute(0, 1, 4, 5, 2, 3)
    right = windows.reshape(records, draws, groups, -1, left.shape[-1])
    left = left.permute(0, 2, 3, 1, 4).reshape(records * groups, left.shape[3], -1)
    right = right.permute(0, 2, 1, 4, 3).reshape(records * groups, left.shape[2], -1)
    return torch.bmm(left, right)


def _channels_last(
    whole: torch.Tensor, kept: torch.Tensor, records: int, geometry: Geometry
) -> torch.Tensor:
    """The products for images that are channels-last in memory: only the windows are copied."""
    groups = geometry.groups
    left = kept.permute(0, 2, 3, 1).reshape(records, -1, groups, kept.shape[1] // groups)
    positions = left.shape[1]
    windows = geometry.windows(whole).permute(0, 2, 3, 4, 5, 1)
    taps = math.prod(geometry.kernel)
    right = windows.reshape(records, positions, taps, groups, -1)
    if groups == 1:
        found = torch.bmm(left.reshape(records, positions, -1).mT, right.flatten(2))
        return found.reshape(records, -1, taps, right.shape[-1]).mT
    found = torch.einsum("rpgo,rptgi->rgoit", left, right)
    return found.reshape(records, kept.shape[1], -1, taps)


class Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, codes: torch.Tensor, weight: Any) -> torch.Tensor:
        ctx.save_for_backward(codes)
        ctx.shape, ctx.dtype = weight.shape, weight.dtype
        return F.embedding(codes, weight[0])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (codes,) = ctx.saved_tensors
        records, _, width = ctx.shape
        slope = gradients[0].float().reshape(records, -1, width)
        chosen = codes.reshape(records, -1, 1).expand(-1, -1, width)
        return None, slope.new_zeros(ctx.shape).scatter_add_(1, chosen, slope).to(ctx.dtype)
