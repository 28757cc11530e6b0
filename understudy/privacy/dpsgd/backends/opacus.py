"""Per-record gradients by Opacus's hooks on each layer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from understudy.errors import PrivacyError
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.backends.base import Loss, follow, trainable, twin_of


class OpacusBackend:
    """Hooks live on twins that share the parameters' memory, so the caller's own
    backward passes through its models never meet them."""

    name = "opacus"

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self._models = list(models)
        self._hook()

    def _hook(self) -> None:
        from opacus import GradSampleModule

        self._twins = [twin_of(model, shares=False) for model in self._models]
        self._parameters = trainable(self._twins)
        if len(self._parameters) != len(trainable(self._models)):
            raise PrivacyError("two models share a parameter; give it to one of them only.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._modules: list[Any] = [
                GradSampleModule(twin, loss_reduction="sum", strict=True) for twin in self._twins
            ]

    def per_record(
        self, loss: Loss, batch: Batch, multiplicity: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        try:
            return self._per_record(loss, batch, multiplicity)
        except torch.OutOfMemoryError:
            self._hook()  # the old hooks hold what a backward pass left half done
            raise

    def _per_record(
        self, loss: Loss, batch: Batch, multiplicity: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self._follow_models()
        with warnings.catch_warnings(), torch.enable_grad():
            warnings.filterwarnings("ignore", message=".*non-full backward hook.*")
            warnings.filterwarnings("ignore", message="Full backward hook is firing.*")
            values = loss(self._modules, batch)
            if values.requires_grad:
                values.sum().backward()  # type: ignore[no-untyped-call]
        rows = len(batch)
        flat = torch.cat([self._take(p, rows) for p in self._parameters], dim=1)
        records = rows // multiplicity
        if multiplicity > 1:
            flat = flat.reshape(records, multiplicity, -1).mean(dim=1)
        return values.detach().reshape(records, multiplicity).mean(dim=1).float(), flat

    def _follow_models(self) -> None:
        """Parameters, frozen ones too, are the models' own; the rest is copied from them."""
        for model, twin in zip(self._models, self._twins, strict=True):
            for own, follower in zip(model.parameters(), twin.parameters(), strict=True):
                follower.data = own.data
            follow(model, twin, mode=False)  # its hooks see nothing in eval mode

    def _take(self, parameter: nn.Parameter, rows: int) -> torch.Tensor:
        sample = getattr(parameter, "grad_sample", None)
        parameter.grad_sample = None  # type: ignore[attr-defined]
        parameter.grad = None
        if sample is None:
            return parameter.new_zeros(rows, parameter.numel(), dtype=torch.float32)
        if isinstance(sample, list):
            sample = torch.stack(sample).sum(dim=0)
        if sample.shape != (rows, *parameter.shape):
            raise PrivacyError(
                f"a layer saw {len(sample)} rows of a batch of {rows}; its gradients cannot be "
                "told apart by record."
            )
        return sample.detach().reshape(rows, -1).float()
