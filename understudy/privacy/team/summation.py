"""DP-SGD by several processes, one a GPU, started by `torchrun` (Opacus: `DistributedDPOptimizer`).

The first process has the door, the ledger and the noise, and alone writes files. Every process
samples its shard of the units and adds up their clipped gradients. The first one adds noise to the
sum of these sums once and broadcasts the released gradient, so that the models stay equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from understudy.data.records import Records
from understudy.errors import PrivacyError, UserError
from understudy.privacy.door.interrupts import NO_FAILURE_OF_A_CALLBACK
from understudy.privacy.door.summation import Summation
from understudy.privacy.dpsgd.engine import GradientSum
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.sums.units import Rows
from understudy.privacy.team.team import Team

if TYPE_CHECKING:
    from understudy.privacy.dpsgd.engine import GradientEngine
    from understudy.privacy.dpsgd.loss import Values


class TeamSummation(Summation):
    """Sums over the units that the processes of a team sampled.

    Guarantee: one process has a unit and samples it at the planned rate from a secret stream of its
    own. So a unit joins a step independently of others, and the sum holds its clipped gradient at
    most once: sensitivity `clip`, as in one process. The first process adds the noise, once, after
    the sums are added up. It alone computes sums over all units (`one_shot`).
    """

    def __init__(self, team: Team) -> None:
        self._team = team

    def allow(self, what: str) -> None:
        raise UserError(
            f"a method with {what} is fitted by one process; start it without torchrun."
        )

    def share(self, records: Records) -> Records:
        return self._team.shard(records)

    def share_of(self, expected: float) -> float:
        return expected / self._team.size

    def step(
        self, planned: DPSGD, engine: GradientEngine, chosen: Rows, values: Values
    ) -> GradientSum:
        failure: BaseException | None = None
        try:
            own = super().step(planned, engine, chosen, values)
        except NO_FAILURE_OF_A_CALLBACK:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, the run is over for all
            failure, own = error, _nothing(engine)
        loss_sum = float(own.mean_loss) * own.units if own.units else 0.0
        mine = [own.units, int(own.clipped), loss_sum, failure is not None]
        figures = torch.tensor(mine, dtype=torch.float64, device=engine.device)
        units, clipped, value, failed = self._team.summed(figures).tolist()
        if failed:
            raise failure or PrivacyError("a callback failed in another process of the team.")
        return replace(
            own,
            total=self._team.summed(own.total.double()),
            units=int(units),
            clipped=torch.tensor(int(clipped)),
            mean_loss=torch.tensor(value / units if units else float("nan")),
        )

    def before_step(self, models: Sequence[nn.Module]) -> None:
        """Copy the first process's weights and buffers to the others.

        Where all processes round alike, they are equal already. After training before the first
        step, or with optimisers on other devices, they may differ, and a difference would grow.
        """
        everything = [t for model in models for t in (*model.parameters(), *model.buffers())]
        with torch.no_grad():
            for kind in sorted({t.dtype for t in everything}, key=str):
                self._share([t for t in everything if t.dtype == kind])

    def after_step(self, parameters: Sequence[nn.Parameter]) -> None:
        """Copy the first process's `.grad` (released sum and public gradients) to the others."""
        self._share([p.grad for p in parameters if p.grad is not None])

    def _share(self, tensors: Sequence[torch.Tensor]) -> None:
        """Broadcast as one vector: collectives refuse tensors in other memory formats."""
        together = self._team.from_first(torch.cat([t.detach().reshape(-1) for t in tensors]))
        if self._team.leads:
            return
        pieces = torch.split(together, [t.numel() for t in tensors])
        for tensor, piece in zip(tensors, pieces, strict=True):
            tensor.copy_(piece.reshape(tensor.shape))


def _nothing(engine: GradientEngine) -> GradientSum:
    total = torch.zeros(engine.width, dtype=torch.float64, device=engine.device)
    return GradientSum(total, 0, torch.tensor(0), torch.tensor(float("nan")))
