"""Several releases under one name in the plan: each with its own noise, all of them charged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from tests.privacy.rig import enter, fits_noise, handle, kinds, leave, open_door, pixels, records
from understudy.audit.noise_tests import ALPHA
from understudy.errors import PrivacyError
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import spent_events, spent_uses
from understudy.privacy.plan.events import DiscreteGaussian, Gaussian
from understudy.privacy.plan.mechanisms import EXACT, FLOAT, NoisyHistogram, NoisySum

SUMS = NoisySum("sums", clip=1.0, sigma=2.0, releases=3)


def wide(batch: Batch) -> torch.Tensor:
    return torch.zeros(len(batch), 20_000)


def label(batch: Batch) -> torch.Tensor:
    return batch.labels


def asked(private: PrivateRecords) -> torch.Tensor:
    return private.noisy_sum(pixels, clip=1.0, sigma=2.0)


@pytest.mark.parametrize("noise", [FLOAT, EXACT])
def test_every_release_has_fresh_noise_of_the_planned_scale(tmp_path: Path, noise: str) -> None:
    planned = NoisySum("sums", clip=3.0, sigma=2.0, noise=noise, releases=3)
    private = handle(tmp_path, records(5), planned)
    out = [private.noisy_sum(wide, clip=3.0, sigma=2.0).double().numpy() for _ in range(3)]
    for values in out:
        assert fits_noise(values, 6.0), "not the planned noise"
        assert not fits_noise(values, 6.0 * 1.1)
        assert not fits_noise(values, 6.0 / 1.1)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert stats.pearsonr(out[one], out[other]).pvalue > ALPHA, "noise came again"
    assert not fits_noise(np.mean([out[0], out[0]], axis=0), 6.0 / np.sqrt(2))


def test_each_is_charged_and_none_goes_beyond_the_plan(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), SUMS)
    path = tmp_path / "ledger.jsonl"
    for number in (1, 2, 3):
        asked(private)
        assert spent_uses(read_ledger(path)) == {"sums": number}
        assert spent_events(read_ledger(path)) == (Gaussian(2.0, number),)
    with pytest.raises(PrivacyError, match="unspent"):
        asked(private)
    assert kinds(tmp_path) == ["plan", *["reserve", "commit"] * 3]


def test_exact_histograms_are_charged_as_discrete_gaussians(tmp_path: Path) -> None:
    planned = NoisyHistogram("bins", bins=3, sigma=2.0, noise=EXACT, releases=2)
    private = handle(tmp_path, records(5), planned)
    for _ in range(2):
        private.noisy_histogram(label, bins=3, sigma=2.0)
    events = spent_events(read_ledger(tmp_path / "ledger.jsonl"))
    assert events == (DiscreteGaussian(2.0, 2),)


def test_after_a_restart_they_are_given_back_in_order_and_then_made(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), SUMS)
    first = [asked(private), asked(private)]
    leave(private._door)
    again = enter(open_door(tmp_path), records(5))
    assert all(torch.equal(asked(again), output) for output in first)
    last = asked(again)
    assert not any(torch.equal(last, output) for output in first)
    assert spent_uses(read_ledger(tmp_path / "ledger.jsonl")) == {"sums": 3}


def test_a_vector_may_be_another_each_time(tmp_path: Path) -> None:
    """As in evolution, where every round votes for other candidates."""
    private = handle(tmp_path, records(5), SUMS)
    assert len(private.noisy_sum(pixels, clip=1.0, sigma=2.0)) == 16
    assert len(private.noisy_sum(wide, clip=1.0, sigma=2.0)) == 20_000
