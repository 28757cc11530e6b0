"""Local noise: every record leaves clipped, with noise for the farthest other record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.privacy.rig import (
    Silence,
    enter,
    fits_noise,
    handle,
    kinds,
    leave,
    open_door,
    records,
    vectors,
)
from understudy.data.records import Records
from understudy.errors import PrivacyError, UserError
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import spent_events
from understudy.privacy.local.gaussian import LocalNoise
from understudy.privacy.plan.mechanisms import LocalRelease

PLANNED = LocalRelease("leave", radius=2.0, sigma=1.5)
NOISE = LocalNoise(radius=2.0, sigma=1.5)


def test_noise_is_sigma_times_the_farthest_distance(tmp_path: Path) -> None:
    data = vectors(np.zeros((200, 100)))
    out = handle(tmp_path, data, PLANNED).transform(NOISE, "local noise")
    values = out.features.astype(np.float64).reshape(-1)
    assert fits_noise(values, 1.5 * 2 * 2.0)
    assert not fits_noise(values, 1.5 * 2.0)


def test_two_records_are_never_farther_apart_than_twice_the_radius(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50, 4)) * np.logspace(-3, 30, 50)[:, None]
    features[7] = np.nan
    features[8] = np.inf
    features[9, 0] = -np.inf
    features[10] = [3e38, 3e38, 3e38, 3e38]
    features[11], features[12] = [9.0, 0, 0, 0], [-9.0, 0, 0, 0]
    data = vectors(features)
    clipped = torch.from_numpy(
        handle(tmp_path, data, PLANNED, noise=Silence()).transform(NOISE, "test").features
    )
    assert torch.isfinite(clipped).all()
    assert float(clipped.double().norm(dim=1).max()) <= 2.0
    farthest = torch.cdist(clipped, clipped).max()
    assert float(farthest) == pytest.approx(4.0, rel=1e-5)
    short = np.linalg.norm(data.features.astype(np.float64), axis=1) < 2.0
    assert np.array_equal(clipped.numpy()[short], data.features[short])


def test_images_are_scaled_to_one_before_clipping() -> None:
    data = records(3)
    clipped = LocalNoise(radius=1e9, sigma=1.0).clipped(data)
    assert torch.allclose(clipped, torch.from_numpy(data.features).float() / 255)


def test_attributes_stay_behind_and_the_event_is_local(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), PLANNED)
    out = private.transform(NOISE, "local noise")
    assert (len(out), dict(out.attributes), out.units) == (5, {}, None)
    (event,) = spent_events(read_ledger(tmp_path / "ledger.jsonl"))
    assert (event.kind, event.sigma) == ("local-gaussian", 1.5)  # type: ignore[union-attr]
    leave(private._door)
    again = enter(open_door(tmp_path), records(5)).transform(NOISE, "local noise")
    assert np.array_equal(again.features, out.features)
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]


def test_another_noise_than_planned_is_refused(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), PLANNED)
    for noise in (LocalNoise(2.0, 1.4), LocalNoise(1.9, 1.5)):
        with pytest.raises(PrivacyError, match="unspent local-release"):
            private.transform(noise, "local noise")


def test_a_mechanism_of_ones_own_is_a_reveal(tmp_path: Path) -> None:
    """Another clipping would have another sensitivity: no subclass passes for `LocalNoise`."""

    class Unclipped(LocalNoise):
        def clipped(self, records: Records) -> torch.Tensor:
            return torch.from_numpy(records.features).float()

    private = handle(tmp_path, records(5), PLANNED)
    with pytest.raises(PrivacyError, match="reveals nothing"):
        private.transform(Unclipped(2.0, 1.5), "local noise")
    assert kinds(tmp_path) == ["plan"]


def test_it_cannot_be_called_outside_the_door() -> None:
    with pytest.raises(UserError, match="transform"):
        NOISE(records(3))
