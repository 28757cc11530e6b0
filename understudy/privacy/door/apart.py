"""What keeps the models of shards apart: one shard's records must reach no other shard's model.

`train` and `update` are functions that may hold anything: a network, an optimiser, a running mean.
What they hand on from one shard to the next is found on made-up records, before private ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from understudy.errors import PrivacyError, UserError

Tensors = Sequence[torch.Tensor]

_TOLERANCE = 1e-4
"""Relative: the same training on one processor may round in another order."""

_ATTEMPTS = 3


def refuse_shared_memory(models: Sequence[nn.Module]) -> None:
    """Models that share what training moves were not trained on one shard each."""
    seen: set[int] = set()
    for model in models:
        own = {p.untyped_storage().data_ptr() for p in model.parameters() if p.requires_grad}
        if own & seen:
            raise PrivacyError("train must make a new model for every shard, sharing nothing.")
        seen |= own


class Unmoved:
    """Tensors as they are now (statistics of a network that models share, say), to compare.

    Guarantee: `require` raises if one of them has another value then.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._pairs = [(tensor, tensor.detach().clone()) for tensor in tensors]

    @classmethod
    def shared(cls, models: Sequence[nn.Module]) -> Unmoved:
        """Of what two or more models share."""
        seen: set[int] = set()
        shared: dict[int, torch.Tensor] = {}
        for model in models:
            own = {t.untyped_storage().data_ptr(): t for t in tensors_of(model) if t.numel()}
            shared |= {place: own[place] for place in own.keys() & seen}
            seen |= own.keys()
        return cls(list(shared.values()))

    def require(self) -> None:
        if not all(_same(now, before) for now, before in self._pairs):
            raise PrivacyError(
                "training one shard's model moves what another's holds (statistics of a network "
                "that they share, say); let every shard have a network of its own."
            )


def require_same_again(
    what: str, first: Tensors, work: Callable[[int], Tensors], others: int
) -> None:
    """Refuse `work` that gives something else for the same made-up records and randomness once it
    saw others: it keeps something, by which one shard's records reach the next one's answer.

    what: who gives something else, in words.
    first: what it made of one record, before it saw others.
    work: from a number of made-up records to its result, with the same randomness every time.
    On a CPU alone: elsewhere the same work may round otherwise every time.
    """
    if any(tensor.device.type != "cpu" for tensor in first):
        return
    for _ in range(_ATTEMPTS):
        again = work(1)
        if _alike(first, again):
            return
        first = again
        work(others)
    raise UserError(
        f"{what} for the same records after it saw others, so it keeps something (an optimiser, a "
        "network, a mean) by which one shard's records would reach another's answer; let it make "
        "what it needs anew, or keep it in the model."
    )


def tensors_of(model: nn.Module) -> list[torch.Tensor]:
    """All that a model holds."""
    return [*model.parameters(), *model.buffers()]


def values_of(model: nn.Module) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors_of(model)]


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def _alike(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    if [t.shape for t in one] != [t.shape for t in other]:
        return False
    return all(
        _same(a, b) or _near(a.double(), b.double()) for a, b in zip(one, other, strict=True)
    )


def _near(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool((one - other).norm() <= _TOLERANCE * one.norm())
