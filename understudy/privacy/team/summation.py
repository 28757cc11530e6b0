"""DP-SGD by several processes, one a GPU, as `torchrun` starts them.

The first process is the run: it has the door, the ledger and the noise, and it alone writes. The
others add the clipped sums of their shards of the units, and get the released gradient. Every
process takes the same steps and then runs its own optimiser on the same gradient, so the models
stay equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from understudy.data.records import Records
from understudy.errors import PrivacyError, UserError
from understudy.privacy.door.summation import Summation
from understudy.privacy.dpsgd.engine import GradientSum
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.sums.units import Rows
from understudy.privacy.team.team import Team

if TYPE_CHECKING:
    from understudy.privacy.dpsgd.engine import GradientEngine
    from understudy.privacy.dpsgd.loss import Values


class TeamSummation(Summation):
    """Sums over the units that any process of a team drew.

    Guarantee: every unit is with one process, which draws it at the planned rate by a secret stream
    of its own; so it joins a step independently, and its clipped gradient is in the sum at most
    once: sensitivity `clip`, as in one process. The first process adds the noise, once, after the
    sums are joined. Sums over all units (`one_shot`) are the first process's alone.
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
        failure: Exception | None = None
        try:
            own = super().step(planned, engine, chosen, values)
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the run is over for all
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
        """Every process computes at the first one's weights.

        They would be equal anyhow where all processes round alike. What they learn before the first
        step, and optimisers on other devices, need not; a small difference would grow.
        """
        everything = [t for model in models for t in (*model.parameters(), *model.buffers())]
        with torch.no_grad():
            for kind in sorted({t.dtype for t in everything}, key=str):
                self._share([t for t in everything if t.dtype == kind])

    def after_step(self, parameters: Sequence[nn.Parameter]) -> None:
        """What the first process released, with its public gradients, is everybody's gradient."""
        self._share([p.grad for p in parameters if p.grad is not None])

    def _share(self, tensors: Sequence[torch.Tensor]) -> None:
        """In one piece: some lie in memory in an order that cannot be sent."""
        together = self._team.from_first(torch.cat([t.detach().reshape(-1) for t in tensors]))
        if self._team.leads:
            return
        pieces = torch.split(together, [t.numel() for t in tensors])
        for tensor, piece in zip(tensors, pieces, strict=True):
            tensor.copy_(piece.reshape(tensor.shape))


def _nothing(engine: GradientEngine) -> GradientSum:
    total = torch.zeros(engine.width, dtype=torch.float64, device=engine.device)
    return GradientSum(total, 0, torch.tensor(0), torch.tensor(float("nan")))
