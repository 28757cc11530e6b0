"""The local channel: clipped latents with fixed noise, labels by randomised response."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch

from tests.privacy.rig import Silence, fits_noise, records, vectors
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.privacy.accounting.accountants import local_price
from understudy.privacy.local.channel import LocalChannel, randomised_response
from understudy.privacy.local.gaussian import LocalNoise, classical_multiplier, gaussian_multiplier
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.events import LocalGaussian

CHANNEL = LocalChannel(radius=2.0, epsilon=3.0, delta=1e-5)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
def test_the_multiplier_is_the_least_that_is_private(epsilon: float, delta: float) -> None:
    sigma = gaussian_multiplier(epsilon, delta)
    exact = [local_price([LocalGaussian(s)], delta).epsilon for s in (sigma, 0.999 * sigma)]
    assert exact[0] == pytest.approx(epsilon, rel=1e-6)
    assert exact[1] > epsilon


def delta_in_many_digits(sigma: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(400):
        near, far = 1 / (2 * mpmath.mpf(sigma)), mpmath.mpf(epsilon) * sigma
        tails = [mpmath.erfc(x / mpmath.sqrt(2)) / 2 for x in (far - near, far + near)]
        return tails[0] - mpmath.exp(epsilon) * tails[1]


@pytest.mark.parametrize("epsilon", [1e-300, 1e-30, 1e-10, 1e-6, 0.01, 1.0, 1000.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-12, 1e-5, 0.5])
def test_rounding_never_takes_noise_away(epsilon: float, delta: float) -> None:
    """Two tails that floats cannot tell apart once passed for a delta of nothing."""
    sigma = gaussian_multiplier(epsilon, delta)
    assert delta_in_many_digits(sigma, epsilon) <= delta, "too little noise"
    if epsilon >= 0.01 and delta >= 1e-12:
        assert delta_in_many_digits(sigma * (1 - 1e-9), epsilon) > delta


def test_the_classical_multiplier_is_larger_and_only_for_small_epsilon() -> None:
    assert classical_multiplier(0.9, 1e-5) > gaussian_multiplier(0.9, 1e-5)
    with pytest.raises(UserError, match="below 1"):
        classical_multiplier(1.0, 1e-5)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-5), (-1, 1e-5), (1, 0), (1, 1), (math.inf, 0.1)]
)
def test_budgets_that_are_none(epsilon: float, delta: float) -> None:
    with pytest.raises(UserError, match=r"epsilon must|delta must"):
        gaussian_multiplier(epsilon, delta)
    with pytest.raises(UserError, match=r"epsilon must|delta must"):
        LocalChannel(1.0, epsilon, delta)


def test_noise_for_a_budget_does_not_look_at_records() -> None:
    noise = LocalNoise.for_budget(2.0, 3.0, 1e-5)
    assert noise == LocalNoise(2.0, gaussian_multiplier(3.0, 1e-5))


def test_noise_is_sigma_times_twice_the_radius() -> None:
    out = CHANNEL.release(vectors(np.zeros((200, 100))), NoiseSource())
    values = out.features.astype(np.float64).reshape(-1)
    planned = gaussian_multiplier(3.0, 1e-5) * 2 * 2.0
    assert CHANNEL.deviation == pytest.approx(planned)
    assert fits_noise(values, planned), "not the planned noise"
    assert not fits_noise(values, planned / 2)


def test_latents_outside_the_radius_are_clipped() -> None:
    features = np.random.default_rng(0).normal(size=(50, 4)) * np.logspace(-2, 20, 50)[:, None]
    features[3] = np.nan
    clipped = torch.from_numpy(CHANNEL.release(vectors(features), Silence()).features)
    assert torch.isfinite(clipped).all()
    assert float(clipped.double().norm(dim=1).max()) <= 2.0, "a latent beyond the radius"


def labelled(count: int, classes: int, code: int = 0) -> Records:
    schema = Schema(tuple(Attribute(n, tuple(map(str, range(classes)))) for n in ("a", "b", "c")))
    codes = {name: np.full(count, code) for name in ("a", "b", "c")}
    return Records(np.zeros((count, 2), np.float32), codes, schema)


def test_only_declared_labels_leave() -> None:
    channel = LocalChannel(1.0, 1.0, 1e-5, {"a": 1.0}, ("c",))
    out = channel.release(labelled(2000, 3, 1), NoiseSource())
    assert (out.schema.names, out.units) == (("a", "c"), None)
    assert (out.attributes["c"] == 1).all()
    assert 0.3 < (out.attributes["a"] == 1).mean() < 0.8
    assert channel.claim().assumed_public == ("c",)


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 0.5), (5, 1.5), (10, 3.0)])
def test_randomised_response_is_as_private_as_it_says(classes: int, epsilon: float) -> None:
    """Both sides: the likeliest answer is e^epsilon times a wrong one, and not 10% more."""
    count = 400_000
    answers = [
        randomised_response(np.full(count, code), classes, epsilon, NoiseSource())
        for code in (0, 1)
    ]
    shares = [np.bincount(a, minlength=classes) / count for a in answers]
    kept = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
    error = 5 * math.sqrt(0.25 / count)
    assert shares[0][0] == pytest.approx(kept, abs=error), "not the planned response"
    assert shares[1][0] == pytest.approx((1 - kept) / (classes - 1), abs=error)
    assert shares[0][0] / shares[1][0] < math.exp(epsilon) * 1.1


def test_one_users_records_compose() -> None:
    channel = LocalChannel(1.0, 1.0, 1e-5, {"a": 0.5})
    one, many = channel.claim(), channel.claim(16)
    assert one.epsilon == many.epsilon == pytest.approx(1.5)
    assert one.user_epsilon == pytest.approx(1.5, rel=1e-6)
    sigma = gaussian_multiplier(1.0, 1e-5)
    joint = local_price([LocalGaussian(sigma / 4)], 1e-5).epsilon
    assert many.user_epsilon == pytest.approx(joint + 16 * 0.5), "a user's records compose"
    with pytest.raises(UserError, match="at least 1"):
        channel.claim(0)


def test_what_a_channel_refuses() -> None:
    with pytest.raises(UserError, match="either randomised or public"):
        LocalChannel(1.0, 1.0, 1e-5, {"a": 1.0}, ("a",))
    with pytest.raises(UserError, match="label 'a'"):
        LocalChannel(1.0, 1.0, 1e-5, {"a": 0.0})
    with pytest.raises(UserError, match="radius"):
        LocalChannel(0.0, 1.0, 1e-5)
    with pytest.raises(UserError, match="encode"):
        CHANNEL.release(records(3), NoiseSource())
    with pytest.raises(UserError, match="no attribute 'd'"):
        LocalChannel(1.0, 1.0, 1e-5, {"d": 1.0}).release(labelled(3, 2), NoiseSource())
