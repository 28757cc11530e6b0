"""The running average of a generator's weights, which is what gets released."""

from __future__ import annotations

import torch
from torch import nn


@torch.no_grad()
def average_into(average: nn.Module, module: nn.Module, decay: float, updates: int) -> None:
    """Move `average` towards `module`, which has been updated `updates` times before.

    Early updates count more, so that the initial weights are soon forgotten; buffers
    (statistics of normalisation) are averaged alike, counters copied.
    """
    keep = min(decay, (1 + updates) / (10 + updates)) if decay > 0 else 0.0
    ours, theirs = average.state_dict(), module.state_dict()
    moving = [name for name, value in ours.items() if value.is_floating_point()]
    # All at once: on a GPU one call for each would take longer than the numbers do.
    torch._foreach_lerp_([ours[name] for name in moving], [theirs[n] for n in moving], 1 - keep)
    for name in ours.keys() - set(moving):
        ours[name].copy_(theirs[name])


@torch.no_grad()
def refresh_statistics(module: nn.Module, batches: list[tuple[torch.Tensor, ...]]) -> None:
    """Measure batch normalisation anew over these batches, then set to evaluation.

    Averaged weights never produced the statistics that training saw.
    """
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    module.train()
    for batch in batches:
        module(*batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    module.eval()
