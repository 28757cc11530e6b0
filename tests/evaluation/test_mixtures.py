"""The mixture of FLD against scipy's normal densities, a general optimiser, and hand sums."""

from __future__ import annotations

from math import log, pi

import numpy as np
import pytest
import torch
from scipy import optimize, special, stats
from torch.utils._python_dispatch import TorchDispatchMode

from understudy.evaluation.mixtures import Mixture, fit_mixture

SOURCE = np.random.default_rng(7)
START = SOURCE.bit_generator.state


@pytest.fixture(autouse=True)
def _the_same_numbers_in_any_order_of_tests() -> None:
    SOURCE.bit_generator.state = START


def objective(
    log_variances: np.ndarray, base: float, centres: np.ndarray, points: np.ndarray
) -> float:
    """What the paper maximises, from scipy's densities of one coordinate at a time."""
    mean = points.mean(axis=0)
    scales = np.exp(log_variances / 2)[None, :, None]
    laws = stats.norm.logpdf(points[:, None], centres[None], scales).sum(axis=2)
    nearer = stats.norm.logpdf(0.9 * (points - mean), 0, np.exp(base / 2)).sum(axis=1)
    together = np.logaddexp(special.logsumexp(laws, axis=1) - log(len(centres)), nearer)
    return float(together.mean())


def best_base(log_variances: np.ndarray, centres: np.ndarray, points: np.ndarray) -> float:
    found = optimize.minimize_scalar(
        lambda base: -objective(log_variances, base, centres, points),
        bounds=(-5, 5),
        method="bounded",
    )
    return float(found.x)


def start(centres: np.ndarray, points: np.ndarray) -> np.ndarray:
    nearest = [min(((c - x) ** 2).sum() for x in points) for c in centres]
    return np.log((np.array(nearest) + 1e-3) / points.shape[1])


def tensors(*arrays: np.ndarray) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(array) for array in arrays)


def test_one_law_around_one_point_by_hand() -> None:
    """N(0, 4 I) in two dimensions at (2, 0): (log 2π + log 4 + 1/2) / 2 · 2 / 2."""
    mixture = Mixture(torch.zeros(1, 2).double(), torch.tensor([log(4.0)]).double())
    loss = mixture.losses(torch.tensor([[2.0, 0.0]]).double())
    assert loss.item() == pytest.approx((2 * log(2 * pi) + 2 * log(4.0) + 1.0) / 2 / 2)


def test_losses_are_those_of_scipys_densities() -> None:
    centres, points = SOURCE.normal(size=(7, 3)), SOURCE.normal(size=(5, 3))
    widths = SOURCE.normal(size=7)
    expected = [
        -log(
            np.mean(
                [
                    stats.multivariate_normal.pdf(x, c, np.exp(w))
                    for c, w in zip(centres, widths, strict=True)
                ]
            )
        )
        / 3
        for x in points
    ]
    c, w, p = tensors(centres, widths, points)
    np.testing.assert_allclose(Mixture(c, w).losses(p).numpy(), expected, rtol=1e-12)


def test_the_fit_is_where_a_general_optimiser_ends() -> None:
    """Another route to the same maximum: quasi-Newton on scipy's densities, from the same start.

    One width for each of the four centres, and that of the base law.
    """
    centres = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0], [3.0, 3.5]])
    points = np.repeat(centres, 30, axis=0) + SOURCE.normal(size=(120, 2)) * 0.7
    found = optimize.minimize(
        lambda w: -objective(w[:4], w[4], centres, points),
        np.append(start(centres, points), 0.0),
        method="L-BFGS-B",
    )
    fitted = fit_mixture(*tensors(centres, points)).log_variances.numpy()
    reached = objective(fitted, best_base(fitted, centres, points), centres, points)
    assert reached == pytest.approx(-found.fun, abs=1e-3)
    np.testing.assert_allclose(fitted, found.x[:4], atol=0.05)


def test_the_fit_is_a_stationary_point() -> None:
    """No width can be changed to the better; at the start some can (the planted fault)."""
    centres, points = SOURCE.normal(size=(6, 3)), SOURCE.normal(size=(20, 3)) + 0.3
    fitted = fit_mixture(*tensors(centres, points)).log_variances.numpy()

    def slopes(widths: np.ndarray) -> np.ndarray:
        base = best_base(widths, centres, points)
        return optimize.approx_fprime(
            widths, lambda w: objective(w, base, centres, points), epsilon=1e-5
        )

    assert np.abs(slopes(fitted)).max() < 2e-3
    assert np.abs(slopes(start(centres, points))).max() > 2e-2


def test_a_copied_point_draws_its_law_onto_it() -> None:
    """The narrowest width there is, and nothing left for points nearby."""
    points = SOURCE.normal(size=(50, 4))
    centres = np.concatenate([points[:1], SOURCE.normal(size=(20, 4))])
    fitted = fit_mixture(*tensors(centres, points)).log_variances
    assert fitted[0] == -40
    assert fitted[1:].min() > -10


def test_far_points_are_borne_by_the_base_law() -> None:
    """One outlier must not widen the laws around all others."""
    points = SOURCE.normal(size=(60, 2)) * 0.1
    centres = SOURCE.normal(size=(60, 2)) * 0.1
    far = np.concatenate([points, [[30.0, 30.0]]])
    plain, pulled = (
        fit_mixture(*tensors(centres, side)).log_variances.median() for side in (points, far)
    )
    assert abs(plain - pulled) < 1


def test_chunks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    centres, points = tensors(SOURCE.normal(size=(30, 4)), SOURCE.normal(size=(40, 4)))
    whole = fit_mixture(centres, points)
    monkeypatch.setattr("understudy.evaluation.mixtures._CHUNK", 7)
    parts = fit_mixture(centres, points)
    torch.testing.assert_close(parts.log_variances, whole.log_variances)
    torch.testing.assert_close(parts.losses(points), whole.losses(points))


def test_nothing_random_is_drawn_and_generators_are_left_alone() -> None:
    centres, points = tensors(SOURCE.normal(size=(30, 4)), SOURCE.normal(size=(40, 4)))
    before = torch.get_rng_state()
    first, second = (fit_mixture(centres, points).log_variances for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


def test_memory_is_that_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest tensor ever made is a chunk of the distances, not all of them."""
    monkeypatch.setattr("understudy.evaluation.mixtures._CHUNK", 100)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            made = func(*args, **(kwargs or {}))
            if isinstance(made, torch.Tensor):
                largest = max(largest, made.numel())
            return made

    centres, points = tensors(SOURCE.normal(size=(300, 3)), SOURCE.normal(size=(300, 3)))
    with Watch():
        fit_mixture(centres, points).losses(points)
    assert largest == 100 * 300
