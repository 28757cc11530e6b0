"""The optimiser, its schedule and the running average of weights that a protocol asks for."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from understudy.evaluation.protocol import ClassifierTraining


def make_optimiser(
    network: nn.Module, training: ClassifierTraining, per_epoch: int, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
    """The optimiser with a schedule that is advanced once a step.

    per_epoch: steps in an epoch. steps: in the whole training.
    """
    parameters, rate, decay = network.parameters(), training.learning_rate, training.weight_decay
    optimiser: torch.optim.Optimizer
    if training.optimiser == "sgd":
        optimiser = torch.optim.SGD(
            parameters, lr=rate, momentum=training.momentum, weight_decay=decay
        )
    elif training.optimiser == "adam":
        optimiser = torch.optim.Adam(parameters, lr=rate, weight_decay=decay)
    else:
        optimiser = torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)

    def factor(step: int) -> float:
        if training.schedule == "constant":
            return 1.0
        if training.step_epochs is not None and training.step_factor is not None:
            return float(training.step_factor ** (step // per_epoch // training.step_epochs))
        return 0.5 * (1 + cos(pi * step / steps))

    return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


def running_average(network: nn.Module, decay: float | None) -> AveragedModel | None:
    """An average of the weights to be updated after each step, or None.

    The n-th update keeps at most (1 + n) / (10 + n) of the average, so that the initial
    weights are soon forgotten. Statistics of normalisation are not averaged: they are those
    of the network after its last step.
    """
    if decay is None:
        return None

    def mix(
        averages: Sequence[torch.Tensor],
        weights: Sequence[torch.Tensor],
        updates: torch.Tensor | int,
    ) -> None:
        # All at once: one kernel and one wait for the device instead of one for each weight.
        done = int(updates)
        keep = min(decay, (1 + done) / (10 + done))
        torch._foreach_lerp_(list(averages), list(weights), 1 - keep)

    return AveragedModel(network, multi_avg_fn=mix)
