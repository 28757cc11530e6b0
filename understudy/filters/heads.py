"""The readers that a filter is trained with: all of them in one pass.

Every head is a network of its own with its own copy of what is sent, so that its gradient can
be told from the others'. Their layers are stacked, and a step of all costs little more than one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

_NEVER = -1e9
"""The logit of a class that a head does not have."""


class Heads(nn.Module):
    """Readers of several labels, `classes` each, with hidden layers of ELU units."""

    absent: torch.Tensor

    def __init__(self, latent: int, classes: Sequence[int], width: int, layers: int) -> None:
        super().__init__()
        most = max(classes)
        sizes = [latent, *[width] * layers, most]
        pairs = list(itertools.pairwise(sizes))
        self.weights = nn.ParameterList(
            (2 * torch.rand(len(classes), before, after) - 1) * before**-0.5
            for before, after in pairs
        )
        self.biases = nn.ParameterList(torch.zeros(len(classes), 1, after) for _, after in pairs)
        absent = torch.zeros(len(classes), 1, most)
        for head, count in enumerate(classes):
            absent[head, 0, count:] = _NEVER
        self.register_buffer("absent", absent)

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        """Logits `[heads, N, most classes]` from one copy `[heads, N, latent]` for each head."""
        values = copies
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = torch.baddbmm(bias, values, weight)
            values = values if layer == last else F.elu(values)
        return values + self.absent

    def losses(self, copies: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """The mean cross-entropy of each head, in nats; `codes` are labels `[heads, N]`."""
        logits = self(copies)
        each = F.cross_entropy(logits.flatten(0, 1), codes.reshape(-1), reduction="none")
        return each.view(codes.shape).mean(dim=1)


class Recovery(nn.Module):
    """A reader of what else a latent holds, and the share of its variance that it misses."""

    def __init__(self, latent: int, width: int) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(latent, width), nn.ELU(), nn.Linear(width, latent))

    def missed(self, sent: torch.Tensor, residuals: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.network(sent), residuals)


class ClusterReader(nn.Module):
    """A reader of the cluster of a record among those with the same hidden labels.

    It is told the hidden labels (`groups`), so what it reads is what is held besides them.
    """

    def __init__(self, latent: int, groups: int, count: int, width: int) -> None:
        super().__init__()
        self.shape = (groups, count)
        self.network = nn.Sequential(
            nn.Linear(latent, width), nn.ELU(), nn.Linear(width, groups * count)
        )

    def missed(
        self, sent: torch.Tensor, groups: torch.Tensor, clusters: torch.Tensor
    ) -> torch.Tensor:
        """The mean cross-entropy, in nats, among the clusters of each record's own group."""
        logits = self.network(sent).view(len(sent), *self.shape)
        own = logits[torch.arange(len(sent)), groups]
        return F.cross_entropy(own, clusters)
