"""Ordinary training on public images: in the precision that the settings ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.methods.diffusion.small import SMALL
from understudy.methods.diffusion.public_training import PublicCourse, train_on_public
from understudy.methods.diffusion.training import DenoiserTraining
from understudy.progress import Silent

CPU = torch.device("cpu")
COURSE = PublicCourse("a test", steps=3, batch=6, rate=1e-3)


def pick(rows: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(rows, 1, 8, 8, generator=random), torch.randint(3, (rows,), generator=random)


def trained(precision: str, monkeypatch: pytest.MonkeyPatch) -> tuple[torch.Tensor, set[bool]]:
    """The averaged weights, and whether passes were made in a lower precision."""
    config = replace(SMALL, precision=precision, average=0.0)
    training = DenoiserTraining(config, config.network((1, 8, 8), 3), 0, CPU)
    lowered: set[bool] = set()
    forward = training.network.forward

    def watching(*inputs: torch.Tensor) -> torch.Tensor:
        lowered.add(torch.is_autocast_enabled("cpu"))
        return forward(*inputs)  # type: ignore[no-any-return]

    monkeypatch.setattr(training.network, "forward", watching)
    train_on_public(training, pick, COURSE, 0, Silent())
    weights = training.average.parameters()
    return torch.cat([p.detach().reshape(-1) for p in weights]), lowered


def test_both_precisions_learn_almost_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    full, whole = trained("float32", monkeypatch)
    half, lowered = trained("bfloat16", monkeypatch)
    assert (whole, lowered) == ({False}, {True})
    assert half.dtype == torch.float32
    assert not torch.equal(full, half)
    assert float((full - half).norm() / full.norm()) < 0.02
