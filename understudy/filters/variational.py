"""What the learned baselines (VFAE, LMIFR) share: Gaussian codes that depend on a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.filters.choice import Choice, codes_of
from understudy.privacy.noise.source import NoiseSource

_ROWS_AT_ONCE = 10_000


class GaussianHead(nn.Module):
    """A mean and a logarithmic variance from one hidden layer with softplus."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, hidden), nn.Softplus())
        self.out = nn.Linear(hidden, 2 * outputs)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_variance = self.out(self.body(torch.cat(inputs, dim=1))).chunk(2, dim=1)
        return mean, log_variance.clamp(-12.0, 8.0)


def softplus_net(inputs: int, hidden: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Softplus(), nn.Linear(hidden, outputs))


def sampled(code: tuple[torch.Tensor, torch.Tensor], random: torch.Generator) -> torch.Tensor:
    mean, log_variance = code
    return mean + (log_variance / 2).exp() * torch.randn(mean.shape, generator=random)


def kl_to_standard(mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
    """KL(N(mean, variance) || N(0, I)) of each row."""
    return (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1) / 2


def kl_between(
    p: tuple[torch.Tensor, torch.Tensor], q: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """KL(p || q) of each row, for diagonal Gaussians as (mean, log variance)."""
    ratio = (p[1] - q[1]).exp()
    far = (p[0] - q[0]).square() / q[1].exp()
    return (ratio + far - 1 - (p[1] - q[1])).sum(dim=1) / 2


def bernoulli_loss(logits: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Minus the log likelihood of each row of features in [0, 1]."""
    return F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(dim=1)


@dataclass(frozen=True)
class Labelled:
    """Features with one hidden and one kept label, as tensors."""

    x: torch.Tensor
    hidden: torch.Tensor
    kept: torch.Tensor
    hidden_attribute: Attribute
    kept_attribute: Attribute | None

    @staticmethod
    def of(records: Records, choice: Choice) -> Labelled:
        """Refuses what these baselines are not made for, in words."""
        if len(choice.private) != 1 or len(choice.useful) > 1:
            raise UserError("this baseline hides one attribute and keeps at most one.")
        kept = choice.useful[0] if choice.useful else None
        codes = codes_of(records, kept) if kept else np.zeros(len(records), np.int64)
        return Labelled(
            unit_features(records),
            torch.from_numpy(codes_of(records, choice.private[0])),
            torch.from_numpy(codes),
            records.schema.attribute(choice.private[0]),
            records.schema.attribute(kept) if kept else None,
        )

    def part(self, rows: torch.Tensor) -> Labelled:
        return Labelled(
            self.x[rows],
            self.hidden[rows],
            self.kept[rows],
            self.hidden_attribute,
            self.kept_attribute,
        )

    @property
    def hidden_onehot(self) -> torch.Tensor:
        return F.one_hot(self.hidden, len(self.hidden_attribute.classes)).float()

    @property
    def kept_onehot(self) -> torch.Tensor:
        return F.one_hot(self.kept, self.kept_classes).float()

    @property
    def kept_classes(self) -> int:
        return len(self.kept_attribute.classes) if self.kept_attribute else 1


class Coding(Protocol):
    """The network of a baseline that turns features and the hidden label into a Gaussian."""

    def code(self, x: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...


@dataclass(frozen=True)
class FairEncoder:
    """A trained baseline: records leave as samples of their codes.

    Guarantee: none. The code's noise is part of what hides the label, so samples are sent,
    never means, and the noise is fresh and secret.
    """

    network: Coding
    hidden: Attribute
    kept: tuple[str, ...]

    def apply(self, records: Records, noise: NoiseSource) -> Records:
        """Codes with the kept labels; the hidden label stays behind."""
        mean, log_variance = self._codes(records)
        sent = mean + (log_variance / 2).exp() * noise.normal(mean.shape)
        return self._with_kept(records, sent)

    def means(self, records: Records) -> Records:
        """The middles of the codes, which some evaluations read in place of samples.

        Not to be sent: without the noise a reader tells the hidden label from tiny shifts.
        """
        return self._with_kept(records, self._codes(records)[0])

    @torch.no_grad()
    def _codes(self, records: Records) -> tuple[torch.Tensor, torch.Tensor]:
        if records.schema.attribute(self.hidden.name).classes != self.hidden.classes:
            raise UserError(f"attribute {self.hidden.name!r} has other classes than in training.")
        x = unit_features(records)
        onehot = F.one_hot(
            torch.from_numpy(codes_of(records, self.hidden.name)), len(self.hidden.classes)
        ).float()
        starts = range(0, len(x), _ROWS_AT_ONCE)
        parts = (slice(start, start + _ROWS_AT_ONCE) for start in starts)
        codes = [self.network.code(x[part], onehot[part]) for part in parts]
        return torch.cat([mean for mean, _ in codes]), torch.cat([spread for _, spread in codes])

    def _with_kept(self, records: Records, codes: torch.Tensor) -> Records:
        kept = tuple(a for a in records.schema.attributes if a.name in self.kept)
        columns = {a.name: records.attributes[a.name] for a in kept}
        return Records(codes.numpy(), columns, Schema(kept))


def unit_features(records: Records) -> torch.Tensor:
    """Features as float vectors in [0, 1]: binary columns, or pixels over 255."""
    values = np.asarray(records.features, np.float32).reshape(len(records), -1)
    values = values / 255.0 if records.is_images else values
    if not (np.isfinite(values).all() and (values >= 0).all() and (values <= 1).all()):
        raise UserError("this baseline takes images or features between 0 and 1.")
    return torch.from_numpy(np.ascontiguousarray(values))
