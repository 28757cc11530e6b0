"""L-MIFR: fair representations under information constraints (Song et al. 2019).

Minimise the reconstruction error of p(x | z, u) subject to C1 = E KL(q(z | x, u) || p(z)) <= e1
and C2 = E[log q(u | z) - log p(u)] <= e2, where u is the hidden label. Both constraints have a
Lagrange multiplier that climbs while its constraint is broken.
"""

from __future__ import annotations

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
    kl_to_standard,
    sampled,
    softplus_net,
)
from understudy.methods.config import setting
from understudy.nets.seeding import built, stream
from understudy.progress import Progress, Silent

_MULTIPLIERS = (0.01, 100.0)
_DECAY, _DECAY_STEPS = 0.98, 1000


@dataclass(frozen=True)
class LMIFRConfig:
    """Sizes and rates of the public code; limits in nats."""

    hidden: int = setting(50, "units of every hidden layer", low=1)
    latent: int = setting(10, "width of the code", low=1)
    most_information: float = setting(10.0, "e1: the limit of E KL(q(z|x,u) || p(z))", low=0.0)
    most_leakage: float = setting(0.02, "e2: the limit of the adversary's information", low=0.0)
    reader_steps: int = setting(2, "steps of the adversary before each step", low=1)
    multiplier_rate: float = setting(1e-3, "RMSProp's rate of the multipliers", low=0.0)
    steps: int = setting(8000, "steps of the code", low=1)
    batch: int = setting(64, "records a step", low=2)
    learning_rate: float = setting(1e-3, "Adam's learning rate, falling slowly", low=0.0)


class LMIFR(nn.Module):
    """Encoder, decoder and the adversary that reads the hidden label."""

    def __init__(self, features: int, groups: int, config: LMIFRConfig) -> None:
        super().__init__()
        self.q_z = GaussianHead(features + groups, config.hidden, config.latent)
        self.p_x = softplus_net(config.latent + groups, config.hidden, features)
        self.reader = softplus_net(config.latent, config.hidden, groups)

    def code(self, x: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        code: tuple[torch.Tensor, torch.Tensor] = self.q_z(x, hidden)
        return code


class Multipliers:
    """Lagrange multipliers, ascending by RMSProp and kept between two limits."""

    def __init__(self, limits: tuple[float, ...], rate: float) -> None:
        self.limits = torch.tensor(limits)
        self.values = torch.ones(len(limits))
        self._squares = torch.zeros(len(limits))
        self._rate = rate

    def penalty(self, found: torch.Tensor) -> torch.Tensor:
        """The Lagrangian's second part; no gradient reaches the multipliers."""
        return (self.values * (found - self.limits)).sum()

    def climb(self, found: torch.Tensor) -> None:
        broken = found.detach() - self.limits
        self._squares = 0.99 * self._squares + 0.01 * broken.square()
        step = self._rate * broken / (self._squares.sqrt() + 1e-8)
        self.values = (self.values + step).clamp(*_MULTIPLIERS)


def fit_lmifr(
    records: Records,
    choice: Choice,
    config: LMIFRConfig | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> FairEncoder:
    """Train the code on the records. Guarantee: none; C2 is what one adversary can read."""
    settings = config or LMIFRConfig()
    refuse_impossible(records, choice)
    data = Labelled.of(records, choice)
    course = _Course(data, settings, seed)
    with (progress or Silent()).task("train L-MIFR", settings.steps) as bar:
        for _ in range(settings.steps):
            course.step()
            bar.advance()
    return FairEncoder(course.network.eval(), data.hidden_attribute, choice.useful)


class _Course:
    def __init__(self, data: Labelled, config: LMIFRConfig, seed: int) -> None:
        self.data, self.config = data, config
        groups = len(data.hidden_attribute.classes)
        self.network = built(lambda: LMIFR(data.x.shape[1], groups, config), seed, "lmifr")
        self.multipliers = Multipliers(
            (config.most_information, config.most_leakage), config.multiplier_rate
        )
        shares = torch.bincount(data.hidden, minlength=groups).double() / len(data.hidden)
        self.entropy = float(-(shares * shares.clamp(min=1e-300).log()).sum())
        self.random = stream(seed, "batches and samples")
        coder = [*self.network.q_z.parameters(), *self.network.p_x.parameters()]
        betas, rate = (0.5, 0.999), config.learning_rate
        self._coder = torch.optim.Adam(coder, rate, betas=betas, fused=True)
        self._reader = torch.optim.Adam(
            self.network.reader.parameters(), rate, betas=betas, fused=True
        )
        self._fall = torch.optim.lr_scheduler.StepLR(self._coder, _DECAY_STEPS, _DECAY)

    def step(self) -> None:
        for _ in range(self.config.reader_steps):
            batch = self._drawn()
            with torch.no_grad():
                z = sampled(self.network.code(batch.x, batch.hidden_onehot), self.random)
            _descend(self._reader, F.cross_entropy(self.network.reader(z), batch.hidden))
        batch = self._drawn()
        loss, found = self._lagrangian(batch)
        _descend(self._coder, loss)
        self._fall.step()
        self.multipliers.climb(found)

    def _lagrangian(self, batch: Labelled) -> tuple[torch.Tensor, torch.Tensor]:
        """The reconstruction error with both penalties, and C1 and C2."""
        code = self.network.code(batch.x, batch.hidden_onehot)
        z = sampled(code, self.random)
        logits = self.network.p_x(torch.cat((z, batch.hidden_onehot), dim=1))
        leakage = self.entropy - F.cross_entropy(self.network.reader(z), batch.hidden)
        found = torch.stack((kl_to_standard(*code).mean(), leakage))
        return bernoulli_loss(logits, batch.x).mean() + self.multipliers.penalty(found), found

    def _drawn(self) -> Labelled:
        size = (self.config.batch,)
        return self.data.part(torch.randint(len(self.data.x), size, generator=self.random))


def _descend(optimiser: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    optimiser.step()
