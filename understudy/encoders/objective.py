"""What an encoder and its decoder are taught: one loss a record, for open and private training.

The dense encoder has the negative evidence bound with Bernoulli outputs. The densenet
encoder has the paper's equation (6): the L2 (or L1) distance of an image from its
reconstruction, the divergence from the prior, and a penalty where the decoder is steeper
than `steepest`.

Which norm the penalty takes: the Frobenius norm of the decoder's Jacobian J at z, estimated
by one random projection, ||J'v|| with v standard normal; its square is an unbiased estimate
of ||J||_F^2, and ||J||_F bounds the Lipschitz constant at z from above. The penalty itself is
convex in the projection, so on average it is no smaller than that of the norm: it also falls on
decoders somewhat flatter than the limit. The paper sums the output pixels instead, which is
v = (1, ..., 1): the slope of the brightness alone. That is `projection = "ones"`. Points z lie
between a prior sample and an encoded one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from understudy.encoders.encoder import unit_interval
from understudy.encoders.specs import Spec
from understudy.nets.vae import split_code
from understudy.privacy.door.batch import Batch, Draws
from understudy.privacy.dpsgd.loss import Models, Values

CODE, PRIOR, MIXING, DIRECTION = "code", "prior", "uniform mixing", "direction"
PROJECTIONS = ("random", "ones")
_SMALL = 1e-8


@dataclass(frozen=True)
class Objective:
    """kl_weight: of the divergence from the prior (the paper's gamma). norm: 2 or 1, of the
    reconstruction where outputs are not Bernoulli. penalty: weight of the Lipschitz penalty
    (kappa; 0 leaves it out). steepest: C_L. projection: see above.
    """

    spec: Spec
    kl_weight: float = 1.0
    norm: int = 2
    penalty: float = 0.0
    steepest: float = 0.0
    projection: str = "random"

    @property
    def draws(self) -> Draws:
        """The randomness of one record, which belongs to it alone."""
        wanted: dict[str, tuple[int, ...]] = {CODE: (self.spec.latent,)}
        if self.penalty:
            wanted |= {PRIOR: (self.spec.latent,), MIXING: (1,)}
            if self.projection == "random":
                wanted[DIRECTION] = (math.prod(self.spec.shape),)
        return wanted

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        """One value a row. Every row is taken by itself, with its own draws, as clipping by
        record needs; models are the encoder and the decoder."""
        del values
        encode, decode = models
        inputs = unit_interval(batch.features)
        mean, log_variance = split_code(encode(inputs))
        codes = mean + (0.5 * log_variance).exp() * batch.draws[CODE]
        fit = self._misfit(inputs, decode(codes))
        loss = fit + self.kl_weight * divergence(mean, log_variance)
        if self.penalty:
            loss = loss + self.penalty * self._too_steep(decode, codes, batch)
        return loss

    def _misfit(self, inputs: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        if self.spec.bernoulli:
            each = F.binary_cross_entropy_with_logits(outputs, inputs, reduction="none")
            return each.flatten(1).sum(dim=1)
        gap = (outputs - inputs).flatten(1)
        if self.norm == 1:
            return gap.abs().sum(dim=1)
        return (gap.square().sum(dim=1) + _SMALL).sqrt()

    def _too_steep(
        self, decode: Callable[..., Any], codes: torch.Tensor, batch: Batch
    ) -> torch.Tensor:
        share = batch.draws[MIXING]
        points = share * batch.draws[PRIOR] + (1.0 - share) * codes
        if self.projection == "random":
            direction = batch.draws[DIRECTION]
        else:
            direction = torch.ones(len(codes), math.prod(self.spec.shape), device=codes.device)
        slopes = pulled_back(decode, points, direction)
        steepness = (slopes.square().sum(dim=1) + _SMALL).sqrt()
        return F.relu(steepness - self.steepest).square()


def divergence(mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
    """KL(N(mean, variance) || N(0, I)), one value a row, in nats."""
    each = mean.square() + log_variance.exp() - 1.0 - log_variance
    return 0.5 * each.sum(dim=1)


def pulled_back(
    decode: Callable[..., Any], points: torch.Tensor, direction: torch.Tensor
) -> torch.Tensor:
    """J'v for each row: the decoder's Jacobian at a point, transposed, times a direction.

    Differentiable. A module is put into eval mode for it, so that statistics of the batch
    neither enter the slope of a row nor are moved by points that are no data.
    """
    if not isinstance(decode, nn.Module):
        pull = torch.func.vjp(lambda z: decode(z).flatten(1), points)[1]
        slopes: torch.Tensor = pull(direction)[0]
        return slopes
    training = decode.training
    decode.eval()
    try:
        if not points.requires_grad:
            points = points.detach().requires_grad_()
        along = (decode(points).flatten(1) * direction).sum()
        (found,) = torch.autograd.grad(along, points, create_graph=torch.is_grad_enabled())
    finally:
        decode.train(training)
    return found
