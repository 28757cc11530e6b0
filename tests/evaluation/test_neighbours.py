"""Precision, recall, density and coverage: hand-made lines, loops, and known expectations."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from understudy.errors import UserError
from understudy.evaluation.neighbours import coverage, covered_share, densities

SOURCE = np.random.default_rng(5)
START = SOURCE.bit_generator.state


@pytest.fixture(autouse=True)
def _the_same_numbers_in_any_order_of_tests() -> None:
    SOURCE.bit_generator.state = START


class TestCoveredShare:
    def test_a_hand_made_line(self) -> None:
        """Support 0, 1, 3, 7 with k=1 has radii 1, 1, 2, 4: it covers [-1, 5] and [3, 11]."""
        support = np.array([[0.0], [1.0], [3.0], [7.0]])
        points = np.array([[-1.0], [-1.5], [2.0], [5.0], [11.0], [11.5]])
        assert covered_share(points, support, neighbours=1) == pytest.approx(4 / 6)

    @pytest.mark.parametrize("neighbours", [1, 3, 5])
    def test_it_agrees_with_brute_force(self, neighbours: int) -> None:
        points, support = SOURCE.normal(size=(90, 6)) * 1.4, SOURCE.normal(size=(70, 6))
        radii = [
            sorted(np.linalg.norm(s - other) for j, other in enumerate(support) if j != i)[
                neighbours - 1
            ]
            for i, s in enumerate(support)
        ]
        inside = [
            any(np.linalg.norm(p - s) <= r for s, r in zip(support, radii, strict=True))
            for p in points
        ]
        share = covered_share(points, support, neighbours)
        assert 0 < share < 1
        assert share == pytest.approx(np.mean(inside))

    def test_chunks_do_not_change_the_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        points, support = SOURCE.normal(size=(50, 4)), SOURCE.normal(size=(60, 4))
        whole = covered_share(points, support, 3)
        monkeypatch.setattr("understudy.evaluation.neighbours._CHUNK", 7)
        assert covered_share(points, support, 3) == whole

    def test_a_collapsed_generator_is_precise_but_covers_nothing(self) -> None:
        real = SOURCE.normal(size=(200, 8)) * 100 + 1000
        collapsed = np.repeat(real[:1], 200, axis=0)
        assert covered_share(collapsed, real, 3) == 1.0
        assert covered_share(real, collapsed, 3) == pytest.approx(1 / 200)


LINE = np.array([[0.0], [1.0], [3.0], [7.0]])
"""With k=1 its radii are 1, 1, 2, 4: the balls [-1, 1], [0, 2], [1, 5], [3, 11]."""


def brute_force(synthetic: np.ndarray, real: np.ndarray, neighbours: int) -> tuple[float, float]:
    """Density and coverage as the paper writes them, one pair at a time."""
    inside = np.zeros((len(real), len(synthetic)), dtype=bool)
    for i, x in enumerate(real):
        others = sorted(np.linalg.norm(x - o) for j, o in enumerate(real) if j != i)
        for j, y in enumerate(synthetic):
            inside[i, j] = np.linalg.norm(x - y) <= others[neighbours - 1]
    density = inside.sum() / (neighbours * len(synthetic))
    return float(density), float(np.mean([row.any() for row in inside]))


class TestDensityAndCoverage:
    def test_a_hand_made_line(self) -> None:
        """-1 lies in one ball, 1 in three, 4 in two, 20 in none; all four balls are met."""
        points = np.array([[-1.0], [1.0], [4.0], [20.0]])
        assert densities(points, LINE, 1).tolist() == [1.0, 3.0, 2.0, 0.0]
        assert coverage(points, LINE, 1) == 1.0
        assert coverage(np.array([[8.0], [9.0], [20.0]]), LINE, 1) == 0.25

    def test_density_counts_in_units_of_k(self) -> None:
        """With k=2 the radii are 3, 2, 3, 6: 2 lies in all four balls, so 4/2."""
        assert densities(np.array([[2.0]]), LINE, 2).tolist() == [2.0]

    @pytest.mark.parametrize("neighbours", [1, 3, 5])
    def test_they_agree_with_loops_written_out(self, neighbours: int) -> None:
        points, real = SOURCE.normal(size=(60, 4)) * 1.4 + 0.3, SOURCE.normal(size=(50, 4))
        density, share = brute_force(points, real, neighbours)
        assert 0 < share < 1
        assert densities(points, real, neighbours).mean() == pytest.approx(density)
        assert coverage(points, real, neighbours) == pytest.approx(share)

    def test_density_has_no_upper_bound(self) -> None:
        """In 50 dimensions the centre is nearer to every point than points are to another."""
        real = SOURCE.normal(size=(100, 50))
        assert densities(np.zeros((10, 50)), real, 5).tolist() == [20.0] * 10

    @pytest.mark.parametrize("size", [2, 12])
    def test_samples_of_one_law_meet_the_known_expectations(self, size: int) -> None:
        """Density 1, and coverage 1 - (n-1)...(n-k) / (2n-1)...(2n-k), for any law.

        Over 60 draws both means lie within four standard errors; with balls that count the
        point itself as its nearest (the planted fault: k - 1 for k) they do not.
        """
        n, k = 100, 5
        expected = 1 - np.prod([(n - i) / (2 * n - i) for i in range(1, k + 1)])
        found: dict[int, list[tuple[float, float]]] = {k: [], k - 1: []}
        for _ in range(60):
            points, real = SOURCE.exponential(size=(2, n, size))
            for balls, rows in found.items():
                density = densities(points, real, balls).mean() * balls / k
                rows.append((density, coverage(points, real, balls)))
        means = {balls: np.mean(rows, axis=0) for balls, rows in found.items()}
        errors = np.std(found[k], axis=0, ddof=1) / np.sqrt(60)
        assert (np.abs(means[k] - [1, expected]) < 4 * errors).all()
        assert (np.abs(means[k - 1] - [1, expected]) > 4 * errors).all()

    def test_chunks_do_not_change_the_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        points, real = SOURCE.normal(size=(50, 4)), SOURCE.normal(size=(60, 4))
        whole = densities(points, real, 3), coverage(points, real, 3)
        monkeypatch.setattr("understudy.evaluation.neighbours._CHUNK", 7)
        assert (densities(points, real, 3) == whole[0]).all()
        assert coverage(points, real, 3) == whole[1]


def test_memory_does_not_grow_with_the_square() -> None:
    """4,000 records: all distances at once would take 128 MB, and several times that."""
    points, real = SOURCE.normal(size=(2, 4000, 4))
    tracemalloc.start()
    coverage(points, real, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


def test_too_few_records_are_refused_in_a_sentence() -> None:
    good = np.zeros((30, 3))
    with pytest.raises(UserError, match="more than 3 records"):
        covered_share(good, np.zeros((3, 3)), 3)
    with pytest.raises(UserError, match="more than 5 records"):
        coverage(good, np.zeros((5, 3)), 5)
    with pytest.raises(UserError, match="equally many columns"):
        densities(good, np.zeros((30, 4)), 5)
