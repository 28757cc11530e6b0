"""Functions whose gradient by an expanded parameter is that of every record.

Each takes its parameters as [records, ...], computes with the first of them, and gives back
the gradient of each record: one product over the record's draws and positions. What is
computed in a lower precision is accumulated in float32 and given in the parameter's own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

_LARGE = 2**15
"""Values; below it a call for every record takes longer than the copy (measured on one core)."""


def called(function: Any, *arguments: Any) -> torch.Tensor:
    result: torch.Tensor = function(*arguments)
    return result


def _lowered(tensor: torch.Tensor) -> torch.Tensor:
    """In the precision that autocast asks for: functions of our own must ask themselves."""
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
    """How a convolution slides."""

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
        """As torch's own convolution takes them."""
        return self.stride, self.padding, self.dilation, self.transposed, self.extra, self.groups

    def windows(self, images: torch.Tensor) -> torch.Tensor:
        """[rows, channels, positions, positions, kernel, kernel]: what the kernel sees, as a view.

        F.unfold takes one kernel launch for every image.
        """
        down, across = self.padding
        seen = F.pad(images, (across, across, down, down)) if down or across else images
        far = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        seen = seen.unfold(2, far[0], self.stride[0]).unfold(3, far[1], self.stride[1])
        return seen[..., :: self.dilation[0], :: self.dilation[1]]


class Convolution(torch.autograd.Function):
    """A transposed convolution is the same with its input and its slope exchanged."""

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
                moved = _record_by_record(slope, inputs, weight, ctx.records, geometry)
            else:
                whole, kept = (slope, inputs) if geometry.transposed else (inputs, slope)
                moved = _kernel_gradients(whole, kept, ctx.records, geometry)
            moved = moved.reshape(ctx.records, *weight.shape).to(ctx.dtype)
        if ctx.biased:
            shifted = slope.reshape(ctx.records, -1, *slope.shape[1:])
            shifted = shifted.sum(dim=(1, 3, 4), dtype=torch.float32)
        return onwards, moved, shifted, None


def _large(inputs: torch.Tensor, records: int, geometry: Geometry) -> bool:
    """Whether, on a CPU, what the kernel sees of a record is too much to be written out."""
    seen = inputs.numel() // records * math.prod(geometry.kernel)
    return not inputs.is_cuda and inputs.dtype == torch.float32 and seen >= _LARGE


def _record_by_record(
    slope: torch.Tensor,
    inputs: torch.Tensor,
    weight: torch.Tensor,
    records: int,
    geometry: Geometry,
) -> torch.Tensor:
    """By torch's own kernel, a record with all its draws at a time."""
    pairs = zip(slope.chunk(records), inputs.chunk(records), strict=True)
    found = [
        torch.ops.aten.convolution_backward(
            after, before, weight, None, *geometry.settings, [False, True, False]
        )[1]
        for after, before in pairs
    ]
    return torch.stack(found)


def _own_kernel() -> bool:
    """Whether the GPU kernel of our own is there (it comes with the compiler)."""
    try:
        from understudy.privacy.backends import cuda_kernels
    except ImportError:
        return False
    return bool(cuda_kernels)


def _kernel_gradients(
    whole: torch.Tensor, kept: torch.Tensor, records: int, geometry: Geometry
) -> torch.Tensor:
    """[records, kept channels, channels of a group, kernel positions]: products of what the
    kernel saw of one side with values of the other, summed over a record's draws and positions."""
    if geometry.own_kernel and whole.dtype == torch.bfloat16:
        how = (geometry.kernel, geometry.stride, geometry.padding)
        found = called(torch.ops.understudy.kernel_gradients, whole, kept, records, *how)
        return found.mT
    products = _channels_last if whole.is_cuda else _channels_first
    return products(whole, kept, records, geometry)


def _channels_first(
    whole: torch.Tensor, kept: torch.Tensor, records: int, geometry: Geometry
) -> torch.Tensor:
    """As images come: channels outside of positions."""
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
    """The same, for channels that lie innermost: nothing but the windows is copied."""
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


class GroupNorm(torch.autograd.Function):
    """Normalisation, scale and shift in one: the sums over positions that its gradient needs are
    those of the scale and shift of each row."""

    @staticmethod
    def forward(
        ctx: Any, inputs: torch.Tensor, weight: Any, bias: Any, groups: int, eps: float
    ) -> torch.Tensor:
        result, mean, inverse = normalised(inputs, weight[0], bias[0], groups, eps)
        ctx.save_for_backward(inputs, weight[:1], mean, inverse)
        ctx.records, ctx.groups = len(weight), groups
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        inputs, weight, mean, inverse = ctx.saved_tensors
        (slope,) = gradients
        if inputs.dtype == torch.float32 and not inputs.is_cuda:
            found = _norm_record_by_record(slope, inputs, weight, (mean, inverse), ctx)
            return *found, None, None
        values, slopes = _positions(inputs).float(), _positions(slope).float()
        products, sums = (slopes * values).sum(dim=2), slopes.sum(dim=2)
        per_channel = values.shape[1] // ctx.groups
        mean, inverse = (m.repeat_interleave(per_channel, dim=1) for m in (mean, inverse))
        by_record = (ctx.records, -1, values.shape[1])
        moved = ((products - sums * mean) * inverse).reshape(by_record).sum(dim=1)
        shifted = sums.reshape(by_record).sum(dim=1)
        onwards = None
        if ctx.needs_input_grad[0]:
            of_products = _group_means(products * weight, ctx.groups) / values.shape[2]
            of_sums = _group_means(sums * weight, ctx.groups) / values.shape[2]
            curve = (of_sums * mean - of_products) * inverse**3
            level = -curve * mean - of_sums * inverse
            each = [t.unsqueeze(2) for t in (inverse * weight, curve, level)]
            found = slopes * each[0] + values * each[1] + each[2]
            onwards = found.to(inputs.dtype).reshape(inputs.shape)
        return onwards, moved, shifted, None, None


def _norm_record_by_record(
    slope: torch.Tensor,
    inputs: torch.Tensor,
    weight: torch.Tensor,
    moments: tuple[torch.Tensor, torch.Tensor],
    ctx: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """By torch's own kernel on a CPU: by input, scale and shift."""
    rows, channels = len(inputs) // ctx.records, inputs.shape[1]
    form = (rows, channels, inputs[0, 0].numel(), ctx.groups)
    tensors = (slope.contiguous(), inputs.contiguous(), *moments)
    found = [
        torch.ops.aten.native_group_norm_backward(*some, weight[0], *form, [True, True, True])
        for some in zip(*(torch.split(t, rows) for t in tensors), strict=True)
    ]
    onwards, moved, shifted = zip(*found, strict=True)
    return torch.cat(onwards), torch.stack(moved), torch.stack(shifted)


def _positions(images: torch.Tensor) -> torch.Tensor:
    """[rows, channels, positions]: a view, wherever the channels lie."""
    return images.unsqueeze(2) if images.ndim == 2 else images.flatten(2)


def _group_means(values: torch.Tensor, groups: int) -> torch.Tensor:
    """[rows, channels]: for each channel the mean over its group."""
    rows, channels = values.shape
    means = values.reshape(rows, groups, -1).mean(dim=2, keepdim=True)
    return means.expand(rows, groups, channels // groups).reshape(rows, channels)


def normalised(
    inputs: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, groups: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The normalised rows in the precision they came in; mean and inverse deviation of each
    group [rows, groups] in float32, in which they are also computed."""
    rows, channels = inputs.shape[:2]
    if inputs.dtype == torch.float32 and not inputs.is_cuda:
        result, mean, inverse = torch.ops.aten.native_group_norm(
            inputs.contiguous(), scale, shift, rows, channels, inputs[0, 0].numel(), groups, eps
        )
        return result, mean, inverse
    # By channel first: its positions lie at equal steps in either memory format.
    values = _positions(inputs).float()
    variances, means = torch.var_mean(values, dim=2, correction=0)
    apart = means - _group_means(means, groups)
    mean = means.reshape(rows, groups, -1).mean(dim=2)
    variance = (variances + apart.square()).reshape(rows, groups, -1).mean(dim=2)
    inverse = torch.rsqrt(variance + eps)
    per_channel = channels // groups
    factor = inverse.repeat_interleave(per_channel, dim=1) * scale
    offset = shift - mean.repeat_interleave(per_channel, dim=1) * factor
    scaled = values * factor.unsqueeze(2) + offset.unsqueeze(2)
    return scaled.to(inputs.dtype).reshape(inputs.shape), mean, inverse


class Affine(torch.autograd.Function):
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
