"""The filter itself: a small map of a latent, its private labels and fresh noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from understudy.errors import UserError, did_you_mean
from understudy.filters.distortion import Numbers, Perturbation

KINDS = ("linear", "network")


@dataclass(frozen=True)
class FilterShape:
    """What a filter is built for: `classes` are the class counts of its private labels."""

    latent: int
    classes: tuple[int, ...]
    kind: str = "linear"
    hidden: int = 16

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f"no filter of kind {self.kind!r}; {did_you_mean(self.kind, KINDS)}")

    def build(self) -> LatentFilter:
        return LatentFilter(self)


class LatentFilter(nn.Module):
    """z' = z + shift + A e, with e standard normal.

    linear: the shift is B onehot(y), so that z' = z + [A B][e; onehot(y)] as in the paper.
    network: the shift is a network of z and onehot(y) with one hidden layer. The noise stays
        linear, so that a record's Gaussian remains one and every divergence keeps its closed
        form.
    """

    def __init__(self, shape: FilterShape) -> None:
        super().__init__()
        self.shape = shape
        d, labels = shape.latent, sum(shape.classes)
        self.noise = nn.Parameter(0.1 * torch.eye(d))
        self.labels = nn.Parameter(0.05 * torch.randn(d, labels))
        if shape.kind == "network":
            self.inner = nn.Parameter(torch.randn(shape.hidden, d + labels) * (d + labels) ** -0.5)
            self.bias = nn.Parameter(torch.zeros(shape.hidden))
            self.outer = nn.Parameter(0.05 * torch.randn(d, shape.hidden))

    def shift(self, z: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """The displacement of each latent's mean; `codes` are the private labels, `[N, labels]`."""
        return self.shift_of(z, one_hot(codes, self.shape.classes))

    def shift_of(self, z: torch.Tensor, onehot: torch.Tensor) -> torch.Tensor:
        """The same from labels that are one-hot already."""
        moved: torch.Tensor = onehot @ self.labels.T
        if self.shape.kind == "network":
            hidden = F.elu(F.linear(torch.cat((z, onehot), dim=1), self.inner, self.bias))
            moved = moved + hidden @ self.outer.T
        return moved

    def forward(self, z: torch.Tensor, codes: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return self.sent(z, one_hot(codes, self.shape.classes), noise)

    def sent(self, z: torch.Tensor, onehot: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """What leaves, from labels that are one-hot already."""
        return z + self.shift_of(z, onehot) + noise @ self.noise.T

    @torch.no_grad()
    def shrink(self, scale: float) -> None:
        """Multiply shift and noise by `scale`."""
        self.noise.mul_(scale)
        self.labels.mul_(scale)
        if self.shape.kind == "network":
            self.outer.mul_(scale)


class FilterGraph(nn.Module):
    """The filter as a fixed graph of latents, noise and one-hot labels, for export.

    Guarantee: none. It draws no noise; whoever runs it must feed fresh normal values, and a
    filter whose noise is known hides less.
    """

    def __init__(self, model: LatentFilter) -> None:
        super().__init__()
        self.model = model

    @property
    def noise_size(self) -> int:
        return self.model.shape.latent

    @property
    def label_size(self) -> int:
        return sum(self.model.shape.classes)

    def forward(
        self, latents: torch.Tensor, noise: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        return self.model.sent(latents, labels, noise)


def one_hot(codes: torch.Tensor, classes: Sequence[int]) -> torch.Tensor:
    """Private labels `[N, labels]` as the concatenation of their one-hot vectors."""
    columns = [F.one_hot(codes[:, i], count) for i, count in enumerate(classes)]
    return torch.cat(columns, dim=1).float()


@torch.no_grad()
def perturbation_of(
    model: LatentFilter, z: torch.Tensor, codes: torch.Tensor, variances: Numbers
) -> Perturbation:
    """What the filter does to these records, each counting alike."""
    shifts: Numbers = model.shift(z, codes).double().numpy()
    weights: Numbers = np.ones(len(shifts))
    if model.shape.kind == "linear":  # few different ones
        shifts, counts = np.unique(shifts, axis=0, return_counts=True)
        weights = counts.astype(np.float64)
    return Perturbation.of(model.noise.numpy(), shifts, weights, variances)


@torch.no_grad()
def round_to_half(model: LatentFilter) -> None:
    """Bring every parameter to a value that half precision can hold, as the file does."""
    for parameter in model.parameters():
        parameter.copy_(parameter.half().float())


def checked_variances(variances: Numbers) -> Numbers:
    """Reference variances, all positive; a coordinate without any spread is an error."""
    values = np.asarray(variances, np.float64)
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise UserError(
            "every coordinate of the latents needs a positive variance to measure distortion by; "
            f"coordinate {int(np.argmin(values))} has {values.min():g}."
        )
    return values
