"""The Variational Fair Autoencoder (Louizos et al. 2016), with its MMD penalty.

Two layers of latents: q(z1 | x, s), q(z2 | z1, y), p(z1 | z2, y), p(x | z1, s), and a reader
q(y | z1). s is the hidden label, y the kept one. What leaves is z1. Public re-implementations
leave the MMD out; without it only the condition on s hides anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from understudy.data.records import Records
from understudy.filters.choice import Choice, refuse_impossible
from understudy.filters.variational import (
    FairEncoder,
    GaussianHead,
    Labelled,
    bernoulli_loss,
    kl_between,
    kl_to_standard,
    sampled,
    softplus_net,
)
from understudy.methods.config import setting
from understudy.nets.seeding import built, stream
from understudy.progress import Progress, Silent


@dataclass(frozen=True)
class VFAEConfig:
    """Sizes of the paper for Adult; weights are per record."""

    hidden: int = setting(100, "units of every hidden layer", low=1)
    latent: int = setting(50, "width of z1 and of z2", low=1)
    label_weight: float = setting(1.0, "alpha: the weight of reading the kept label", low=0.0)
    mmd_weight: float = setting(
        100.0, "beta: the weight of the squared MMD between groups, per record", low=0.0
    )
    kernel_features: int = setting(500, "random features of the MMD's kernel", low=1)
    kernel_width: float = setting(1.0, "gamma of the kernel exp(-|x - y|^2 / gamma)", low=1e-6)
    steps: int = setting(6000, "steps of Adam", low=1)
    batch: int = setting(100, "records a step", low=2)
    learning_rate: float = setting(1e-3, "Adam's learning rate", low=0.0)


class VFAE(nn.Module):
    """The networks, as named in the module's text."""

    def __init__(self, features: int, groups: int, labels: int, config: VFAEConfig) -> None:
        super().__init__()
        wide, latent = config.hidden, config.latent
        self.q_z1 = GaussianHead(features + groups, wide, latent)
        self.q_z2 = GaussianHead(latent + labels, wide, latent)
        self.p_z1 = GaussianHead(latent + labels, wide, latent)
        self.p_x = softplus_net(latent + groups, wide, features)
        self.q_y = softplus_net(latent, wide, labels)

    def code(self, x: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        code: tuple[torch.Tensor, torch.Tensor] = self.q_z1(x, hidden)
        return code


def fit_vfae(
    records: Records,
    choice: Choice,
    config: VFAEConfig | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> FairEncoder:
    """Train the autoencoder on the records. Guarantee: none; what it hides is measured."""
    settings = config or VFAEConfig()
    refuse_impossible(records, choice)
    data = Labelled.of(records, choice)
    groups = len(data.hidden_attribute.classes)
    network = built(
        lambda: VFAE(data.x.shape[1], groups, data.kept_classes, settings), seed, "vfae"
    )
    kernel = RandomKernel(settings, seed)
    random = stream(seed, "batches and samples")
    adam = torch.optim.Adam(network.parameters(), settings.learning_rate, fused=True)
    with (progress or Silent()).task("train the VFAE", settings.steps) as bar:
        for _ in range(settings.steps):
            rows = torch.randint(len(data.x), (settings.batch,), generator=random)
            loss = _loss(network, data.part(rows), kernel, settings, random)
            adam.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            adam.step()
            bar.advance()
    return FairEncoder(network.eval(), data.hidden_attribute, choice.useful)


class RandomKernel:
    """Random kitchen sinks for a Gaussian kernel: psi(z) = sqrt(2/D) cos(sqrt(2/gamma) z W + b)."""

    def __init__(self, config: VFAEConfig, seed: int) -> None:
        random = stream(seed, "kernel")
        count = config.kernel_features
        self.frequencies = torch.randn(config.latent, count, generator=random)
        self.frequencies *= math.sqrt(2 / config.kernel_width)
        self.phases = 2 * math.pi * torch.rand(count, generator=random)

    def features(self, z: torch.Tensor) -> torch.Tensor:
        scale = math.sqrt(2 / len(self.phases))
        return scale * (z @ self.frequencies + self.phases).cos()

    def discrepancy(self, z: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
        """The squared MMD, summed over pairs of groups that are present."""
        mapped = self.features(z)
        means = [mapped[groups == code].mean(dim=0) for code in torch.unique(groups)]
        total = z.new_zeros(())
        for i, first in enumerate(means):
            for second in means[i + 1 :]:
                total = total + (first - second).square().sum()
        return total


def _loss(
    network: VFAE,
    batch: Labelled,
    kernel: RandomKernel,
    config: VFAEConfig,
    random: torch.Generator,
) -> torch.Tensor:
    """Minus the evidence lower bound, the kept label's cross-entropy, and the MMD."""
    code = network.q_z1(batch.x, batch.hidden_onehot)
    z1 = sampled(code, random)
    upper = network.q_z2(z1, batch.kept_onehot)
    z2 = sampled(upper, random)
    bound = bernoulli_loss(network.p_x(torch.cat((z1, batch.hidden_onehot), dim=1)), batch.x)
    bound = bound + kl_to_standard(*upper) + kl_between(code, network.p_z1(z2, batch.kept_onehot))
    loss: torch.Tensor = bound.mean()
    if batch.kept_attribute is not None:
        loss = loss + config.label_weight * F.cross_entropy(network.q_y(z1), batch.kept)
    return loss + config.mmd_weight * kernel.discrepancy(z1, batch.hidden)
