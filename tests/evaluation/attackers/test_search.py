"""Nearest records and densities against plain numpy, and in bounded memory."""

from __future__ import annotations

import os
import resource

import numpy as np
import pytest

from understudy.errors import UserError
from understudy.evaluation.attackers import search
from understudy.evaluation.attackers.search import log_kernel_density, nearest


def plain_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    difference = x.reshape(len(x), 1, -1).astype(float) - y.reshape(1, len(y), -1)
    return np.sqrt((difference**2).sum(axis=2))


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """Small blocks, so that a few records fill several."""
    monkeypatch.setattr(search, "_POINTS", 7)
    monkeypatch.setattr(search, "_SUPPORT", 5)
    random = np.random.default_rng(0)
    shape = (1, 4, 4)
    return (
        random.integers(0, 256, (23, *shape), dtype=np.uint8),
        random.integers(0, 256, (31, *shape), dtype=np.uint8),
    )


def test_nearest_records_over_several_blocks(sets: tuple[np.ndarray, np.ndarray]) -> None:
    points, support = sets
    all_distances = plain_distances(points, support)
    found = nearest(points, support, 3)
    np.testing.assert_array_equal(found.positions, np.argsort(all_distances, axis=1)[:, :3])
    np.testing.assert_allclose(found.distances, np.sort(all_distances, axis=1)[:, :3], rtol=1e-12)


def test_no_record_is_its_own_neighbour(sets: tuple[np.ndarray, np.ndarray]) -> None:
    points, _ = sets
    all_distances = plain_distances(points, points)
    np.fill_diagonal(all_distances, np.inf)
    found = nearest(points, points, within=True)
    np.testing.assert_array_equal(found.positions[:, 0], all_distances.argmin(axis=1))
    assert (nearest(points, points).distances == 0).all(), "the other side: it is without `within`"


def test_equal_features_are_at_distance_zero() -> None:
    points = np.random.default_rng(1).normal(1e3, 1e-3, (50, 40)).astype(np.float32)
    assert (nearest(points, points).distances == 0).all()


def test_density_is_the_mean_kernel(sets: tuple[np.ndarray, np.ndarray]) -> None:
    points, support = sets
    kernels = np.exp(-(plain_distances(points, support) ** 2) / (2 * 90.0**2))
    found = log_kernel_density(points, support, 90.0)
    np.testing.assert_allclose(found, np.log(kernels.mean(axis=1)), rtol=1e-10)


def test_density_of_far_points_is_small_but_a_number() -> None:
    found = log_kernel_density(np.array([[1e6]]), np.array([[0.0], [1.0]]), 0.1)
    assert np.isfinite(found).all()
    assert found[0] < -1e12


def test_too_few_records_and_odd_numbers_are_refused() -> None:
    one = np.zeros((1, 3))
    with pytest.raises(UserError, match="2 nearest records need a set of at least 2, not 1"):
        nearest(one, one, 2)
    with pytest.raises(UserError, match="at least 2, not 1"):
        nearest(one, one, within=True)
    with pytest.raises(UserError, match="not finite"):
        nearest(np.array([[np.nan]]), np.array([[1.0]]))


def added_memory(count: int) -> int:
    """Bytes that the peak grew by in a search of so many records against as many."""
    points = np.random.default_rng(0).normal(size=(count, 2)).astype(np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = nearest(points, points, 2, within=True)
    assert found.distances.shape == (count, 2)
    return 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def test_memory_stays_far_below_the_matrix_of_all_distances() -> None:
    """16,000 x 16,000 doubles would be 2 GB; the blocks are a few times 8 MB."""
    assert added_memory(16_000) < 200e6


@pytest.mark.audit
@pytest.mark.skipif("UNDERSTUDY_AUDIT" not in os.environ, reason="full size: make audit")
def test_memory_at_sixty_thousand() -> None:
    """The full size: 29 GB if it were one matrix."""
    assert added_memory(60_000) < 400e6
