"""The game hides what it should, keeps what it should, and stays within its budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.filters.latent_cases import FakeEncoder, linear_accuracy, mixture
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.filters.choice import Choice
from understudy.filters.distortion import DIVERGENCES, Distortion
from understudy.filters.filter import Filter, fit_filter
from understudy.filters.game import GameConfig, _Game, train_filter
from understudy.filters.model import perturbation_of
from understudy.privacy.noise.source import NoiseSource

QUICK = GameConfig(steps=200, batch=256, head_steps=2, head_width=16, head_layers=1)
CHOICE = Choice(("hide",), ("keep",))


def sent(fitted: Filter, records: Records) -> Records:
    return replace(records, features=fitted.filtered(records, NoiseSource()))


def test_it_hides_one_label_and_keeps_the_others() -> None:
    learned, asked = mixture(3000), mixture(3000, seed=1)
    fitted = fit_filter(learned, CHOICE, Distortion("kl", 2.0), FakeEncoder(), QUICK)
    before = [linear_accuracy(learned, asked, n) for n in ("hide", "keep", "other")]
    filtered = sent(fitted, learned), sent(fitted, asked)
    after = [linear_accuracy(*filtered, n) for n in ("hide", "keep", "other")]
    assert before[0] > 0.9
    assert after[0] < 0.62
    assert min(after[1:]) > 0.85


def test_an_adversary_that_is_misled_earns_nothing() -> None:
    """Labels swapped, not hidden, would be read by a fresh attacker just as well."""
    game = _Game(mixture(400), CHOICE, Distortion(), replace(QUICK, utility_weight=0.7), None, 0)
    misled, starved, reading = (game._weights(torch.tensor([loss, 0.1])) for loss in (3, 0.7, 0.6))
    assert misled.tolist() == pytest.approx([0.0, 0.7]), "a misled adversary is rewarded"
    assert starved.tolist() == misled.tolist()
    assert reading.tolist() == pytest.approx([-1.0, 0.7])


def test_the_slope_is_that_of_the_filters_loss() -> None:
    """One pass serves heads and filter; its slope must be what a loss of its own would give."""
    config = replace(QUICK, utility_weight=0.7, nearness_weight=0.2, recovery_weight=0.3)
    records = mixture(400)
    one, two = (_Game(records, CHOICE, Distortion(), config, None, 0) for _ in range(2))
    sent, pull = one._learn_and_pull()
    batch = two._drawn()
    again = two._sent(batch).detach().requires_grad_()
    assert torch.equal(sent.detach(), again.detach())
    losses = two.heads.losses(again.expand(2, *again.shape), batch.codes)
    reads = float(losses[0] < two.entropies[0])
    away = (again - batch.z).square().mean()
    missed = two.recovery.missed(again, batch.residuals)
    loss = -reads * losses[0] + 0.7 * losses[1] + 0.3 * missed + 0.2 * away
    torch.autograd.backward(loss)
    torch.testing.assert_close(pull, again.grad)


def test_nearness_moves_less() -> None:
    learned = mixture(2000)
    far, near = (
        train_filter(learned, CHOICE, Distortion("l2", 5.0), replace(QUICK, nearness_weight=weight))
        for weight in (0.0, 0.5)
    )
    assert near.measured < 0.5 * far.measured


@pytest.mark.parametrize("kind", ["linear", "network"])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_the_budget_is_kept(kind: str, divergence: str) -> None:
    learned = mixture(800)
    config = replace(QUICK, steps=25, kind=kind, filter_rate=0.2)
    limit = Distortion(divergence, 0.2)
    trained = train_filter(learned, CHOICE, limit, config)
    codes = torch.from_numpy(learned.attributes["hide"])[:, None]
    change = perturbation_of(
        trained.model, torch.from_numpy(learned.features), codes, trained.variances
    )
    assert limit.measure(change) == pytest.approx(trained.measured)
    assert 0.1 < trained.measured <= 0.2 * 1.000001, "violation of the budget"


def test_several_hidden_and_several_kept_labels() -> None:
    learned, asked = mixture(3000), mixture(3000, seed=1)
    choice = Choice(("hide", "other"), ("keep",))
    fitted = fit_filter(learned, choice, Distortion("kl", 3.0), FakeEncoder(), QUICK)
    assert fitted.model.labels.shape == (6, 4)
    filtered = sent(fitted, learned), sent(fitted, asked)
    assert max(linear_accuracy(*filtered, n) for n in ("hide", "other")) < 0.66
    assert linear_accuracy(*filtered, "keep") > 0.85


def test_without_a_useful_label_the_rest_of_the_latent_is_kept() -> None:
    learned, asked = mixture(3000), mixture(3000, seed=1)
    config = replace(QUICK, recovery_weight=1.0)
    fitted = fit_filter(learned, Choice(("hide",)), Distortion("kl", 2.0), FakeEncoder(), config)
    filtered = sent(fitted, learned), sent(fitted, asked)
    assert linear_accuracy(*filtered, "hide") < 0.66
    assert min(linear_accuracy(*filtered, n) for n in ("keep", "other")) > 0.85


def test_the_same_seed_gives_the_same_filter() -> None:
    learned, config = mixture(500), replace(QUICK, steps=10)
    one, two, other = (
        train_filter(learned, CHOICE, Distortion(), config, seed=seed).model.noise
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_parameters_are_what_half_precision_holds() -> None:
    trained = train_filter(mixture(500), CHOICE, Distortion(), replace(QUICK, steps=5))
    for parameter in trained.model.parameters():
        assert torch.equal(parameter, parameter.half().float())


def test_bad_records() -> None:
    records = mixture(50)
    broken = replace(records, features=np.full_like(records.features, np.nan))
    with pytest.raises(UserError, match="finite"):
        train_filter(broken, CHOICE, Distortion(), QUICK)
    flat = replace(records, features=np.zeros_like(records.features))
    with pytest.raises(UserError, match="variance"):
        train_filter(flat, CHOICE, Distortion(), QUICK)
    images = replace(records, features=np.zeros((50, 1, 4, 4), np.uint8))
    with pytest.raises(UserError, match="encode"):
        train_filter(images, CHOICE, Distortion(), QUICK)
    both = replace(records, attributes={**records.attributes, "keep": records.attributes["hide"]})
    with pytest.raises(UserError, match="no filter can hide 'hide'"):
        train_filter(both, CHOICE, Distortion(), QUICK)
