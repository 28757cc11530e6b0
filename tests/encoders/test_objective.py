from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.encoders.samples import DENSE, DENSENET
from understudy.encoders.objective import CODE, DIRECTION, Objective, divergence, pulled_back
from understudy.nets.seeding import built
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.row_independence import check_loss

STEEP = Objective(DENSENET, 0.1, penalty=0.5, steepest=0.01)


def batch_for(objective: Objective, rows: int, seed: int = 0) -> Batch:
    random = torch.Generator().manual_seed(seed)
    draws = {
        name: (torch.rand if name.startswith("uniform") else torch.randn)(
            rows, *shape, generator=random
        )
        for name, shape in objective.draws.items()
    }
    return Batch(torch.rand(rows, *objective.spec.shape, generator=random), {}, draws)


def pair_of(objective: Objective) -> list[nn.Module]:
    return [built(objective.spec.encoder, 0, "e"), built(objective.spec.decoder, 0, "d")]


def test_the_divergence_is_that_of_torch():
    random = torch.Generator().manual_seed(0)
    mean, log_variance = torch.randn(2, 5, 3, generator=random)
    posterior = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    prior = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
    wanted = torch.distributions.kl_divergence(posterior, prior).sum(dim=1)
    assert torch.allclose(divergence(mean, log_variance), wanted, atol=1e-5)


def test_the_dense_loss_is_the_negative_evidence_bound():
    objective = Objective(DENSE)
    models, batch = pair_of(objective), batch_for(objective, 4)
    mean, log_variance = models[0](batch.features).chunk(2, dim=1)
    z = mean + (0.5 * log_variance).exp() * batch.draws[CODE]
    likelihood = torch.distributions.Bernoulli(logits=models[1](z), validate_args=False)
    fit = -likelihood.log_prob(batch.features).flatten(1).sum(dim=1)
    wanted = fit + divergence(mean, log_variance)
    assert torch.allclose(objective(models, batch, {}), wanted, rtol=1e-5)


@pytest.mark.parametrize("norm", [1, 2])
def test_the_image_loss_is_a_norm_of_the_difference(norm):
    objective = Objective(DENSENET, kl_weight=0.0, norm=norm)
    models, batch = pair_of(objective), batch_for(objective, 3)
    mean, log_variance = models[0](batch.features).chunk(2, dim=1)
    made = models[1](mean + (0.5 * log_variance).exp() * batch.draws[CODE])
    wanted = (made - batch.features).flatten(1).norm(p=norm, dim=1)
    assert torch.allclose(objective(models, batch, {}), wanted, rtol=1e-4)


@pytest.mark.parametrize("objective", [Objective(DENSE), STEEP], ids=["dense", "lipschitz"])
def test_every_record_has_its_own_loss(objective):
    """What clipping by record rests on, value and gradient."""
    models = pair_of(objective)
    parameters = [p for model in models for p in model.parameters()]
    check_loss(lambda b: objective(models, b, {}), parameters, batch_for(objective, 4))


def test_projections_estimate_the_frobenius_norm_of_the_jacobian():
    decoder = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 30))
    z = torch.randn(1, 4)
    jacobian = torch.autograd.functional.jacobian(decoder, z).reshape(30, 4)
    many = 20_000
    directions = torch.randn(many, 30, generator=torch.Generator().manual_seed(0))
    slopes = pulled_back(decoder, z.expand(many, 4).clone(), directions)
    estimate = float(slopes.detach().square().sum(dim=1).mean())
    assert math.isclose(estimate, float(jacobian.square().sum()), rel_tol=0.05)
    ones = pulled_back(decoder, z, torch.ones(1, 30))
    assert torch.allclose(ones[0], jacobian.sum(dim=0), atol=1e-5)


def test_a_module_and_a_function_have_the_same_slopes_and_modes_are_kept():
    decoder = built(DENSENET.decoder, 0, "d").train()
    z, v = torch.randn(3, DENSENET.latent), torch.randn(3, 3 * 16 * 16)
    plain = pulled_back(decoder, z, v)
    assert decoder.training
    weights = dict(decoder.named_parameters())
    functional = pulled_back(lambda x: torch.func.functional_call(decoder, weights, (x,)), z, v)
    assert torch.allclose(plain, functional, atol=1e-4)


def test_statistics_of_the_batch_are_not_moved_by_the_penalty():
    decoder = built(replace(DENSENET, norm="batch").decoder, 0, "d").train()
    before = {k: v.clone() for k, v in decoder.state_dict().items()}
    pulled_back(decoder, torch.randn(3, DENSENET.latent), torch.randn(3, 3 * 16 * 16))
    assert all(torch.equal(before[k], v) for k, v in decoder.state_dict().items())


def test_the_penalty_is_for_slopes_above_the_limit_only():
    free = replace(STEEP, steepest=1e6)
    models, batch = pair_of(STEEP), batch_for(STEEP, 4)
    plain = Objective(DENSENET, 0.1)(models, batch, {})
    assert torch.equal(free(models, batch, {}), plain)
    assert (STEEP(models, batch, {}) > plain).all()


def test_the_penalty_flattens_the_decoder():
    objective = replace(STEEP, kl_weight=0.0, penalty=10.0)
    models = pair_of(objective)
    optimizer = torch.optim.Adam([p for m in models for p in m.parameters()], lr=1e-2)
    batch = batch_for(objective, 8)
    z, v = torch.randn(8, DENSENET.latent), batch.draws[DIRECTION]
    before = pulled_back(models[1], z, v).norm(dim=1).mean()
    for _ in range(15):
        optimizer.zero_grad()
        objective(models, batch, {}).mean().backward()
        optimizer.step()
    assert pulled_back(models[1], z, v).norm(dim=1).mean() < 0.7 * before
