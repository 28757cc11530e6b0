"""What is said of noise beside a signal: sound noise passes, noise that follows it does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from understudy.audit.noise_tests import Floats, are_unrelated, ignores_signal


def made_up(scale: Callable[[Floats], Floats | float]) -> tuple[Floats, Floats]:
    """Noise by a scale that follows a signal, and the signal."""
    rng = np.random.default_rng(7)
    signal = np.repeat([0.0, 0.1, 10.0], 20_000) * rng.choice([-1.0, 1.0], 60_000)
    return rng.normal(size=signal.size) * scale(signal), signal


def test_noise_by_itself_passes() -> None:
    assert ignores_signal(*made_up(lambda _: 1.0), 1.0)
    assert not ignores_signal(*made_up(lambda _: 1.0), 1.05)


FOLLOWING: dict[str, Callable[[Floats], Floats | float]] = {
    "proportional to the sum": lambda s: np.abs(s),
    "more beside a large signal": lambda s: 1 + 0.01 * np.abs(s),
    "less beside a large signal": lambda s: 1 - 0.01 * np.abs(s),
    "none beside a signal": lambda s: s == 0,
    "none beside a small signal": lambda s: (s == 0) | (np.abs(s) > 1),
    "by the norm of all": lambda s: np.linalg.norm(s),
    "one sign only beside a signal": lambda s: np.where(s < -1, 1.1, np.where(s > 1, 0.9, 1.0)),
}


@pytest.mark.parametrize("scale", FOLLOWING.values(), ids=list(FOLLOWING))
def test_noise_that_follows_the_signal_is_rejected(
    scale: Callable[[Floats], Floats | float],
) -> None:
    assert not ignores_signal(*made_up(scale), 1.0)


def test_a_shift_that_follows_the_signal_is_rejected() -> None:
    noise, signal = made_up(lambda _: 1.0)
    assert not ignores_signal(noise - 0.02 * signal, signal, 1.0)


def test_values_without_any_signal_are_refused() -> None:
    noise = np.random.default_rng(8).normal(size=60_000)
    with pytest.raises(ValueError, match="zero and others"):
        ignores_signal(noise, np.zeros_like(noise), 1.0)


def test_noise_used_twice_is_seen_through_rounding() -> None:
    rng = np.random.default_rng(9)
    one, other = rng.normal(size=(2, 4000))
    again = (one + 1e4).astype(np.float32).astype(np.float64) - 1e4
    assert are_unrelated([one, other])
    assert not are_unrelated([other, one, again])
