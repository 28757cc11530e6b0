"""Ordinary training on public images: in the precision that the settings ask for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.methods.diffusion.small import SMALL
from understudy.methods.diffusion import public_progress
from understudy.methods.diffusion.denoiser_training import DenoiserTraining
from understudy.methods.diffusion.public_progress import PublicProgress
from understudy.methods.diffusion.public_training import Pick, PublicCourse, train_on_public
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


def stopping_at(step: int) -> Pick:
    left = iter(range(step))

    def stopping(rows: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return pick(rows, random)

    return stopping


def test_a_stopped_course_goes_on_where_it_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the same weights, without the steps that were taken; a damaged file begins anew."""
    monkeypatch.setattr(public_progress, "_EVERY_SECONDS", -1.0)
    kept = tmp_path / "cache" / "course.part"

    def weights(some: Pick, kept: Path | None) -> torch.Tensor:
        training = DenoiserTraining(SMALL, SMALL.network((1, 8, 8), 3), 0, CPU)
        train_on_public(training, some, COURSE, 0, Silent(), PublicProgress(kept))
        return torch.cat([p.detach().reshape(-1) for p in training.average.parameters()])

    whole = weights(pick, None)
    with pytest.raises(KeyboardInterrupt):
        weights(stopping_at(2), kept)
    assert torch.equal(weights(stopping_at(1), kept), whole)
    kept.write_bytes(b"cut off")
    assert torch.equal(weights(pick, kept), whole)
