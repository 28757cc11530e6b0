"""VFAE and L-MIFR: the networks of the papers, and their penalties do something."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.filters.latent_cases import linear_accuracy, mixture
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.filters.choice import Choice
from understudy.filters.lmifr import LMIFRConfig, Multipliers, fit_lmifr
from understudy.filters.variational import FairEncoder, kl_between, kl_to_standard
from understudy.filters.vfae import RandomKernel, VFAEConfig, fit_vfae
from understudy.privacy.noise.source import NoiseSource

CHOICE = Choice(("hide",), ("keep",))
QUICK_VFAE = VFAEConfig(
    hidden=20,
    latent=4,
    steps=250,
    kernel_features=100,
    mmd_weight=20.0,
    label_weight=10.0,
    learning_rate=5e-3,
)
QUICK_LMIFR = LMIFRConfig(hidden=20, latent=4, steps=250, multiplier_rate=0.05)


def table(count: int, seed: int = 0) -> Records:
    """Binary columns: the signs of the mixture's coordinates, the first two several times."""
    records = mixture(count, seed=seed)
    signs = (records.features[:, [0, 0, 0, 1, 1, 1, 2, 3]] > 0).astype(np.float32)
    return replace(records, features=signs)


def accuracies(fitted: FairEncoder, learned: Records, asked: Records) -> list[float]:
    """Of both labels, over sixteen draws of the codes' noise: one alone moves by .01 (sd)."""
    draws = [_accuracies_once(fitted, learned, asked) for _ in range(16)]
    return [sum(column) / len(draws) for column in zip(*draws, strict=True)]


def _accuracies_once(fitted: FairEncoder, learned: Records, asked: Records) -> list[float]:
    codes = [replace(r, features=fitted.apply(r, NoiseSource()).features) for r in (learned, asked)]
    return [linear_accuracy(codes[0], codes[1], name) for name in ("hide", "keep")]


def test_vfae_hides_more_with_its_mmd() -> None:
    learned, asked = table(2000), table(2000, 1)
    without = fit_vfae(learned, CHOICE, replace(QUICK_VFAE, mmd_weight=0.0))
    hidden, kept = accuracies(fit_vfae(learned, CHOICE, QUICK_VFAE), learned, asked)
    assert linear_accuracy(learned, asked, "hide") > 0.9
    assert hidden < accuracies(without, learned, asked)[0] - 0.03, "the MMD does nothing"
    assert hidden < 0.65
    assert kept > 0.8


def test_the_mmd_is_zero_for_equal_groups_and_grows_with_their_distance() -> None:
    kernel = RandomKernel(replace(QUICK_VFAE, kernel_features=2000), 0)
    z = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
    groups = torch.arange(400) % 2
    near = kernel.discrepancy(z, groups)
    far = kernel.discrepancy(z + 2 * groups[:, None], groups)
    assert float(near) < 0.02
    assert float(far) > 10 * float(near)


def test_the_random_features_are_of_the_kernel() -> None:
    kernel = RandomKernel(replace(QUICK_VFAE, kernel_features=40_000, kernel_width=2.0), 0)
    z = torch.tensor([[0.0, 0, 0, 0], [0.5, -0.3, 0.2, 0.1]])
    found = kernel.features(z) @ kernel.features(z).T
    exact = torch.exp(-torch.cdist(z, z).square() / 2.0)
    assert torch.allclose(found, exact, atol=0.02)


def test_lmifr_hides_and_keeps() -> None:
    learned, asked = table(2000), table(2000, 1)
    hidden, kept = accuracies(fit_lmifr(learned, CHOICE, QUICK_LMIFR), learned, asked)
    assert hidden < 0.75
    assert kept > 0.75


def test_multipliers_climb_while_their_constraint_is_broken() -> None:
    multipliers = Multipliers((1.0, 1.0), 0.1)
    for _ in range(20):
        multipliers.climb(torch.tensor([2.0, 0.0]))
    assert float(multipliers.values[0]) > 1.5
    assert float(multipliers.values[1]) < 0.5
    multipliers.values *= torch.tensor([1000.0, 1e-6])
    multipliers.climb(torch.tensor([2.0, 0.0]))
    assert [round(v, 2) for v in multipliers.values.tolist()] == [100.0, 0.01]


def test_divergences_of_codes() -> None:
    mean, log_variance = torch.tensor([[0.5, -1.0]]), torch.tensor([[0.2, -0.3]])
    standard = torch.zeros(1, 2), torch.zeros(1, 2)
    assert torch.allclose(
        kl_between((mean, log_variance), standard), kl_to_standard(mean, log_variance)
    )
    p = torch.distributions.Normal(mean, (log_variance / 2).exp())
    q = torch.distributions.Normal(torch.zeros(1, 2), torch.ones(1, 2))
    exact = torch.distributions.kl_divergence(p, q).sum(dim=1)
    assert torch.allclose(kl_to_standard(mean, log_variance), exact)


def test_codes_leave_with_noise_and_without_the_hidden_label() -> None:
    learned = table(300)
    fitted = fit_vfae(learned, CHOICE, replace(QUICK_VFAE, steps=2))
    one, two = (fitted.apply(learned, NoiseSource()) for _ in range(2))
    assert tuple(one.attributes) == ("keep",)
    assert not np.array_equal(one.features, two.features), "the code's noise is missing"


def test_the_middles_of_codes_are_those_of_their_samples() -> None:
    learned = table(300)
    fitted = fit_vfae(learned, CHOICE, replace(QUICK_VFAE, steps=2))
    middles = fitted.means(learned)
    assert tuple(middles.attributes) == ("keep",)
    assert np.array_equal(middles.features, fitted.means(learned).features)
    draws = np.stack([fitted.apply(learned, NoiseSource()).features for _ in range(50)])
    apart = np.abs(draws.mean(axis=0) - middles.features) / draws.std(axis=0)
    assert apart.max() < 1.0, "50 draws have a mean within 7 standard errors"


@pytest.mark.parametrize("fit", [fit_vfae, fit_lmifr])
def test_what_they_are_not_made_for(fit) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError, match="hides one attribute"):
        fit(table(50), Choice(("hide", "keep")))
    with pytest.raises(UserError, match="between 0 and 1"):
        fit(mixture(50), CHOICE)
