"""DP-SGD by several processes, one a GPU, as `torchrun` starts them.

The first process is the run: it has the door, the ledger and the noise, and it alone writes.
The others follow: they hold a shard of the units each, add their clipped sum, and get the
released gradient. Every process calls `step` with the same models and loss, and then its own
optimiser on the same gradient, so the models stay equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.privacy.door.batch import Draws
from understudy.privacy.door.door import Door
from understudy.privacy.dpsgd.backends.base import Loss
from understudy.privacy.dpsgd.engine import GradientEngine, GradientSum
from understudy.privacy.dpsgd.session import DPSGDSession
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.sums.units import Rows, UnitIndex
from understudy.privacy.team.team import Team

OVER, STOPPED = -1, -2
"""Told instead of a step's number: there is none left; the first process was asked to stop."""


class TeamEngine(GradientEngine):
    """Sums over the units that were sampled by any process."""

    team = Team()

    def clipped_sum(self, loss: Loss, draws: Draws, chosen: Rows) -> GradientSum:
        """`chosen` are this process's own; what comes back is the sum over all processes.

        Guarantee: units are with one process each, so every unit's clipped gradient is in
        the sum at most once: sensitivity `clip` as in one process. Every process
        holds all records and computes on its own shard; the sum goes no further than the door.
        """
        own = super().clipped_sum(loss, draws, chosen)
        loss_sum = float(own.mean_loss) * own.units if own.units else 0.0
        figures = torch.tensor([own.units, int(own.clipped), loss_sum], dtype=torch.float64)
        units, clipped, value = self.team.summed(figures.to(self.device)).tolist()
        return replace(
            own,
            total=self.team.summed(own.total.double()),
            units=int(units),
            clipped=torch.tensor(int(clipped)),
            mean_loss=torch.tensor(value / units if units else float("nan")),
        )


class LeadingSession(DPSGDSession):
    """The steps of the first process: those of `DPSGDSession`, with everybody's units.

    Guarantee: that of `DPSGDSession.step`. Each process samples the units of its shard
    with probability `rate` by a secret stream of its own, so every unit joins independently
    with probability `rate`, as in one process. Noise is drawn and added once, here, after
    the sums are joined. Which unit is with which process changes nothing in what is released.
    """

    def __init__(
        self,
        door: Door,
        mechanism: DPSGD,
        speed: Speed,
        records: Records,
        count: int,
        team: Team,
    ) -> None:
        """records: all of them; count: the declared count of all their units."""
        mine = team.shard(records)
        super().__init__(door, mechanism, speed, mine, UnitIndex(mine), count)
        self._team = team

    def steps(self, description: str = "training") -> Iterator[int]:
        for number in super().steps(description):
            self._team.number(number)
            yield number
        self._team.number(OVER)

    def step(
        self,
        models: Sequence[nn.Module],
        loss: Loss,
        public_grads: Sequence[torch.Tensor] | None = None,
        draws: Draws | None = None,
    ) -> None:
        _share_weights(models, self._team)
        super().step(models, loss, public_grads, draws)
        _share_gradients(self._engine_for(models), self._team)

    def _engine_for(self, models: Sequence[nn.Module]) -> GradientEngine:
        if self._engine is None or not self._engine.serves(models):
            self._engine = _team_engine(
                models,
                self.mechanism,
                self._speed,
                self._records,
                self._door.noise,
                self.expected_batch,
                self._team,
            )
        return self._engine


class FollowingSession:
    """The steps of every other process: no door, no ledger, no noise.

    What it computes from its shard leaves it only as a summand of the first process's sum;
    the gradient that it gets back is the released one.
    """

    def __init__(
        self,
        mechanism: DPSGD,
        speed: Speed,
        records: Records,
        count: int,
        team: Team,
        noise: NoiseSource | None = None,
        done: int = 0,
    ) -> None:
        """done: the steps that earlier starts of the run took."""
        if team.leads:
            raise UserError("the first process of a team leads; give it a LeadingSession.")
        self.mechanism = mechanism
        self._speed, self._team = speed, team
        self._records = team.shard(records)
        self._units = UnitIndex(self._records)
        self._count = count
        self._stream = noise or NoiseSource()
        self._engine: GradientEngine | None = None
        self.steps_done = done

    @property
    def expected_batch(self) -> float:
        """Units that a step draws on average, over all processes."""
        return self.mechanism.rate * self._count

    @property
    def steps_left(self) -> int:
        return self.mechanism.steps - self.steps_done

    def steps(self, description: str = "training") -> Iterator[int]:
        """The numbers of the steps that the first process takes."""
        del description  # the first one has the bar
        while (number := self._team.number()) != OVER:
            if number == STOPPED:
                raise KeyboardInterrupt
            yield number

    def step(
        self,
        models: Sequence[nn.Module],
        loss: Loss,
        public_grads: Sequence[torch.Tensor] | None = None,
        draws: Draws | None = None,
    ) -> None:
        """Sets `.grad` of every trainable parameter to what the first process released.

        Guarantee: every unit of the shard joins independently with probability `rate`; what leaves
        this process is their clipped sum, to the first process of the team, which alone adds the
        noise and releases (`DPSGDSession.step`). `public_grads` are taken from the first's call.
        """
        del public_grads
        _share_weights(models, self._team)
        if self._engine is None or not self._engine.serves(models):
            self._engine = _team_engine(
                models,
                self.mechanism,
                self._speed,
                self._records,
                self._stream,
                self.expected_batch,
                self._team,
            )
        chosen = self._stream.bernoulli(len(self._units), self.mechanism.rate).numpy()
        self._engine.clipped_sum(loss, draws or {}, np.flatnonzero(chosen))
        _share_gradients(self._engine, self._team)
        self.steps_done += 1


def _team_engine(
    models: Sequence[nn.Module],
    mechanism: DPSGD,
    speed: Speed,
    records: Records,
    noise: NoiseSource,
    expected: float,
    team: Team,
) -> TeamEngine:
    """An engine for this process's share of the units."""
    units = UnitIndex(records)
    engine = TeamEngine(models, mechanism, speed, records, units, noise, expected / team.size)
    engine.team = team
    return engine


def _share_weights(models: Sequence[nn.Module], team: Team) -> None:
    """Every process computes at the first one's weights.

    They would be equal anyhow where all processes round alike. What they learn before the first
    step, and optimisers on other devices, need not; a small difference would grow.
    """
    everything = [t for model in models for t in (*model.parameters(), *model.buffers())]
    with torch.no_grad():
        for kind in sorted({t.dtype for t in everything}, key=str):
            _share([t for t in everything if t.dtype == kind], team)


def _share_gradients(engine: GradientEngine, team: Team) -> None:
    for parameter in engine.parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    _share([p.grad for p in engine.parameters if p.grad is not None], team)


def _share(tensors: Sequence[torch.Tensor], team: Team) -> None:
    """In one piece: some lie in memory in an order that cannot be sent."""
    together = team.from_first(torch.cat([t.detach().reshape(-1) for t in tensors]))
    if team.leads:
        return
    pieces = torch.split(together, [t.numel() for t in tensors])
    for tensor, piece in zip(tensors, pieces, strict=True):
        tensor.copy_(piece.reshape(tensor.shape))
