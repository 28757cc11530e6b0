"""The check that a callback treats every row by itself.

Clipping bounds one unit's influence only if the value and gradient of a row do not
depend on the other rows of its batch. Before first use, on random data, each row is
compared with itself alone; a callback that mixes rows is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from understudy.errors import PrivacyError
from understudy.privacy.batch import Batch

TOLERANCE = 1e-5
_MIXING_LAYERS = (nn.modules.batchnorm._BatchNorm,)


def refuse_mixing_layers(models: Sequence[nn.Module]) -> None:
    """Refuse by name the layers that share statistics between the rows of a batch."""
    for model in models:
        for name, module in model.named_modules():
            if isinstance(module, _MIXING_LAYERS):
                kind = type(module).__name__
                raise PrivacyError(
                    f"layer {name!r} ({kind}) mixes the records of a batch; use GroupNorm instead."
                )


def check_rows(value_of: Callable[[Batch], torch.Tensor], batch: Batch, what: str) -> None:
    """Refuse `value_of` unless each row's value equals that of the row alone."""
    values = value_of(batch)
    _check_count(values, len(batch), what)
    for index in range(len(batch)):
        alone = value_of(batch.row(index))
        _check_count(alone, 1, what)
        if not _close(values[index], alone[0]):
            raise PrivacyError(_mixing(what))


def check_loss(
    loss_of: Callable[[Batch], torch.Tensor],
    parameters: Sequence[torch.Tensor],
    batch: Batch,
    what: str = "the loss",
) -> None:
    """Refuse a loss unless each row's value and gradient equal those of the row alone."""
    values = loss_of(batch)
    _check_count(values, len(batch), what)
    if values.ndim != 1:
        raise PrivacyError(f"{what} must return one number a row, not {list(values.shape)}.")
    for index in range(len(batch)):
        alone = loss_of(batch.row(index))
        together = _gradient(values[index], parameters, retain=True)
        single = _gradient(alone[0], parameters, retain=False)
        if not (_close(values[index], alone[0]) and _close(together, single)):
            raise PrivacyError(_mixing(what))


def _gradient(value: torch.Tensor, over: Sequence[torch.Tensor], retain: bool) -> torch.Tensor:
    grads = torch.autograd.grad(value, over, retain_graph=retain, allow_unused=True)
    filled = [torch.zeros_like(p) if g is None else g for p, g in zip(over, grads, strict=True)]
    return torch.cat([g.reshape(-1) for g in filled])


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    a, b = a.detach(), b.detach()
    if not (torch.isfinite(a).all() and torch.isfinite(b).all()):
        return False
    scale = max(1.0, float(b.abs().max())) if b.numel() else 1.0
    return bool((a - b).abs().max() <= TOLERANCE * scale) if b.numel() else True


def _check_count(values: torch.Tensor, rows: int, what: str) -> None:
    if values.ndim < 1 or len(values) != rows:
        raise PrivacyError(
            f"{what} must return one value a row; it gave {list(values.shape)} for {rows} rows."
        )


def _mixing(what: str) -> str:
    return (
        f"{what} gives a row another value or gradient in company than alone (it mixes the records "
        "of a batch, or draws its own randomness); use only the row and its own batch.draws."
    )
