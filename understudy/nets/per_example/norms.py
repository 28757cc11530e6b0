"""Normalisation whose gradient by an expanded scale and shift is that of every record.

As in `functions`, parameters are [records, ...]: the forward pass uses the first entry, and the
backward pass returns a gradient for each.
"""

from __future__ import annotations

from typing import Any

import torch


class GroupNorm(torch.autograd.Function):
    """Normalisation, scale and shift in one function: the sums over positions that the gradient by
    the input needs are also the gradients of the scale and shift of each row."""

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
            found = _norm_by_torch(slope, inputs, weight, (mean, inverse), ctx)
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


def _norm_by_torch(
    slope: torch.Tensor,
    inputs: torch.Tensor,
    weight: torch.Tensor,
    moments: tuple[torch.Tensor, torch.Tensor],
    ctx: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients by input, scale and shift, by torch's own CPU kernel.

    All rows are passed as one image with the channels and groups of all of them, so that the kernel
    returns the gradients of scale and shift row by row.
    """
    rows, channels = inputs.shape[:2]
    onwards, moved, shifted = torch.ops.aten.native_group_norm_backward(
        slope.contiguous(),
        inputs.contiguous(),
        *moments,
        weight[0].repeat(rows),
        *(1, rows * channels, inputs[0, 0].numel(), rows * ctx.groups),
        [True, True, True],
    )
    by_record = (ctx.records, -1, channels)
    return (
        onwards.reshape(inputs.shape),
        moved.reshape(by_record).sum(dim=1),
        shifted.reshape(by_record).sum(dim=1),
    )


def _positions(images: torch.Tensor) -> torch.Tensor:
    """[rows, channels, positions], a view in either memory format."""
    return images.unsqueeze(2) if images.ndim == 2 else images.flatten(2)


def _group_means(values: torch.Tensor, groups: int) -> torch.Tensor:
    """[rows, channels]: for each channel the mean over its group."""
    rows, channels = values.shape
    means = values.reshape(rows, groups, -1).mean(dim=2, keepdim=True)
    return means.expand(rows, groups, channels // groups).reshape(rows, channels)


def normalised(
    inputs: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, groups: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The normalised rows in their own precision, and the mean and inverse deviation of each group
    [rows, groups], computed in float32."""
    rows, channels = inputs.shape[:2]
    if inputs.dtype == torch.float32 and not inputs.is_cuda:
        result, mean, inverse = torch.ops.aten.native_group_norm(
            inputs.contiguous(), scale, shift, rows, channels, inputs[0, 0].numel(), groups, eps
        )
        return result, mean, inverse
    # By channel first: the positions of one channel have one stride in either memory format.
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
