"""Distances against closed forms, scipy's matrix root and loops written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from understudy.errors import UserError
from understudy.evaluation.distances import frechet_distance, kernel_distances

SOURCE = np.random.default_rng(5)
START = SOURCE.bit_generator.state


@pytest.fixture(autouse=True)
def _the_same_numbers_in_any_order_of_tests() -> None:
    SOURCE.bit_generator.state = START


def with_moments(count: int, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Points whose sample mean and unbiased sample covariance are exactly these."""
    raw = SOURCE.normal(size=(count, len(mean)))
    raw -= raw.mean(axis=0)
    white = raw @ np.linalg.inv(np.linalg.cholesky(np.cov(raw.T))).T
    return mean + white @ np.linalg.cholesky(covariance).T


def random_covariance(size: int) -> np.ndarray:
    raw = SOURCE.normal(size=(size, 2 * size))
    return raw @ raw.T / size


class TestFrechetDistance:
    def test_commuting_covariances_have_a_closed_form(self) -> None:
        first, second = np.diag([1.0, 4.0, 9.0]), np.diag([4.0, 1.0, 25.0])
        shift = np.array([1.0, -2.0, 0.5])
        value = frechet_distance(
            with_moments(50, shift, first), with_moments(70, np.zeros(3), second)
        ).value
        assert value == pytest.approx(5.25 + (1 - 2) ** 2 + (2 - 1) ** 2 + (3 - 5) ** 2, rel=1e-9)

    @pytest.mark.parametrize("size", [2, 17, 60])
    def test_general_covariances_agree_with_scipys_root(self, size: int) -> None:
        a, b = random_covariance(size), random_covariance(size)
        gap = SOURCE.normal(size=size)
        root = linalg.sqrtm(a @ b).real
        expected = gap @ gap + np.trace(a + b - 2 * root)
        value = frechet_distance(
            with_moments(200, gap, a), with_moments(150, np.zeros(size), b)
        ).value
        assert value == pytest.approx(expected, rel=1e-8)

    def test_a_set_against_itself_is_zero(self) -> None:
        points = SOURCE.normal(size=(40, 10))
        assert frechet_distance(points, points).value == pytest.approx(0.0, abs=1e-9)

    def test_fewer_records_than_features_need_no_special_care(self) -> None:
        """Ranks 5 and 7 in 30 dimensions: the root comes from singular values of the data."""
        x, y = SOURCE.normal(size=(6, 30)), SOURCE.normal(size=(8, 30)) * 3 + 1
        centred_x, centred_y = x - x.mean(axis=0), y - y.mean(axis=0)
        overlap = np.linalg.svd(centred_x @ centred_y.T, compute_uv=False).sum() / np.sqrt(5 * 7)
        spread = (centred_x**2).sum() / 5 + (centred_y**2).sum() / 7
        gap = x.mean(axis=0) - y.mean(axis=0)
        estimate = frechet_distance(x, y)
        assert estimate.value == pytest.approx(gap @ gap + spread - 2 * overlap, rel=1e-9)
        assert np.isfinite(estimate.standard_error)

    def test_constant_features_are_no_obstacle(self) -> None:
        x, y = np.ones((10, 4)), np.full((12, 4), 3.0)
        assert frechet_distance(x, y).value == pytest.approx(16.0)

    @pytest.mark.parametrize(("size", "count"), [(4, 300), (48, 300)])
    def test_the_standard_error_is_the_spread_over_new_draws(self, size: int, count: int) -> None:
        """100 draws fix a standard deviation to about 7%; a factor of 2 is rejected."""
        mixing = SOURCE.normal(size=(size, size)) / size**0.5
        estimates = [
            frechet_distance(
                SOURCE.normal(size=(count, size)) @ mixing,
                (1.5 * SOURCE.normal(size=(count, size)) + 0.3) @ mixing,
            )
            for _ in range(100)
        ]
        spread = np.std([e.value for e in estimates], ddof=1)
        claimed = np.mean([e.standard_error for e in estimates])
        assert 0.7 < claimed / spread < 1.4


class TestKernelDistance:
    def test_blocks_agree_with_loops_written_out(self) -> None:
        x, y = SOURCE.normal(size=(40, 3)), SOURCE.normal(size=(44, 3)) + 0.5

        def kernel(a: np.ndarray, b: np.ndarray) -> float:
            return float((a @ b / 3 + 1) ** 3)

        expected = []
        for start in range(0, 40, 4):
            p, q = x[start : start + 4], y[start : start + 4]
            pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
            within = sum(kernel(p[i], p[j]) + kernel(q[i], q[j]) for i, j in pairs) / 12
            across = sum(kernel(a, b) for a in p for b in q) / 16
            expected.append(within - 2 * across)
        np.testing.assert_allclose(kernel_distances(x, y, block=1000), expected, rtol=1e-10)

    def test_the_block_size_is_respected(self) -> None:
        x = SOURCE.normal(size=(103, 2))
        assert len(kernel_distances(x, x + 1, block=5)) == 20
        assert len(kernel_distances(x, x + 1, block=1000)) == 10

    def test_it_is_unbiased_for_equal_laws_and_sees_different_ones(self) -> None:
        """Over 300 draws the mean lies within four standard errors of zero; a shift does not."""
        null, shifted = [], []
        for _ in range(300):
            x, y = SOURCE.normal(size=(40, 3)), SOURCE.normal(size=(40, 3))
            null.append(kernel_distances(x, y, 1000).mean())
            shifted.append(kernel_distances(x, y + 0.3, 1000).mean())
        error = np.std(null, ddof=1) / np.sqrt(300)
        assert abs(np.mean(null)) < 4 * error
        assert np.mean(shifted) > 4 * error

    def test_the_biased_form_would_be_caught(self) -> None:
        """The planted fault: keeping the diagonal shifts the null far from zero."""
        biased = []
        for _ in range(300):
            x, y = SOURCE.normal(size=(4, 3)), SOURCE.normal(size=(4, 3))
            k = [(a @ b.T / 3 + 1) ** 3 for a, b in ((x, x), (y, y), (x, y))]
            biased.append(k[0].mean() + k[1].mean() - 2 * k[2].mean())
        assert np.mean(biased) > 4 * np.std(biased, ddof=1) / np.sqrt(300)


def test_bad_features_are_refused_in_a_sentence() -> None:
    good = np.zeros((30, 3))
    with pytest.raises(UserError, match="equally many columns"):
        frechet_distance(good, np.zeros((30, 4)))
    with pytest.raises(UserError, match="at least 2 records"):
        frechet_distance(good, np.zeros((1, 3)))
    with pytest.raises(UserError, match="at least 20 records"):
        kernel_distances(good, np.zeros((19, 3)), 10)
    with pytest.raises(UserError, match="not finite"):
        frechet_distance(good, np.full((30, 3), np.nan))
