"""Aggregates of a Poisson sample as a whole: a critic's gradient, say, which is no sum.

Each step hands all sampled records to a callback together, clips the one vector that it returns,
and releases it with noise for twice the clip.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import nn

from understudy.data.records import Records
from understudy.errors import PrivacyError, UserError
from understudy.nets.per_example.twins import twin_of
from understudy.nets.rng_isolation import isolated_rng
from understudy.privacy.door.batch import (
    TRIAL_ROWS,
    Batch,
    extreme_batch,
    make_batch,
    random_batch,
)
from understudy.privacy.door.interrupts import all_at_once
from understudy.privacy.door.steps import MOST_STEPS, Steps, steps_in_block
from understudy.privacy.dpsgd.loss import BoundLoss, Models, Values, values_on
from understudy.privacy.plan.mechanisms import ClippedAggregate
from understudy.privacy.sums.clipping import clip_whole
from understudy.privacy.sums.units import Rows, UnitIndex

if TYPE_CHECKING:
    from understudy.privacy.door.door import Door

_MOST_TRIED = 4096
"""Most made-up records in a trial; a step of more takes longer in proportion."""


class Aggregate(Protocol):
    """Maps all records of a sample to one tensor of a declared shape.

    A frozen dataclass as a `Loss` is: networks are passed as models, and what changes from step
    to step as `values`. It may mix records as it likes.
    """

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor: ...


class AggregateSession(Steps[ClippedAggregate]):
    """The steps of one planned clipped aggregate, of one callback bound once."""

    def __init__(
        self,
        door: Door,
        mechanism: ClippedAggregate,
        aggregate: Aggregate,
        shape: Sequence[int],
        models: Sequence[nn.Module],
        records: Records,
        count: int,
    ) -> None:
        """shape: of what the callback returns. count: the declared number of units."""
        super().__init__(door, mechanism)
        self._aggregate = BoundLoss(aggregate, "aggregate", "clipped_aggregate")
        self._shape = tuple(shape)
        self._models, self._records = list(models), records
        self._units, self._count = UnitIndex(records), count
        self._seconds = 0.0

    @property
    def expected_batch(self) -> float:
        """The average number of units in a step, by the declared count."""
        return self.mechanism.rate * self._count

    def step(self, values: Mapping[str, Any] | None = None) -> torch.Tensor:
        """One step: the noisy aggregate of a fresh sample, float32, of the declared shape.

        Guarantee: every unit joins independently with probability `rate`; what the callback makes
        of all records of those that joined is clipped as a whole to L2 norm `clip`, and is zero
        if nobody joined; noise of standard deviation `sigma * 2 * clip` is added, always.
        Sensitivity `2 * clip` under adding or removing one unit. Event: one Poisson-sampled
        Gaussian with multiplier `sigma`.

        Neither the sample's size nor its records reach the method: the callback gets copies of
        models and values, and is tried on made-up records before every block of steps.
        """
        door, planned = self._door, self.mechanism
        given = values_on(door.device, values)
        if door.needs_block(planned):
            self._try(given)
        block = steps_in_block(MOST_STEPS, self._seconds)
        door.begin_step(planned, block, self._aggregate.require_unchanged)
        with door.breaking(), all_at_once("a sample", "plan a lower rate"):
            chosen = np.flatnonzero(door.noise.bernoulli(len(self._units), planned.rate).numpy())
            total = self._clipped(chosen, given)
        door.owner_log.note(
            {"mechanism": planned.name, "step": self.steps_done, "units": len(chosen)}
        )
        return door.release_step(total, planned, 1.0).reshape(self._shape)

    def _clipped(self, chosen: Rows, values: Values) -> torch.Tensor:
        rows, _ = self._units.rows(chosen)
        if not len(rows):
            width = int(np.prod(self._shape))
            return torch.zeros(width, dtype=torch.float64, device=self._door.device)
        batch = make_batch(self._records, rows, self._door.device)
        return clip_whole(self._called(batch, values), self.mechanism.clip)

    def _called(self, batch: Batch, values: Values) -> torch.Tensor:
        """What the callback returns; what it writes into models or values is thrown away."""
        twins = [twin_of(model, shares=False) for model in self._models]
        copies = {name: value.clone() for name, value in values.items()}
        with isolated_rng(self._door.noise.callback_stream_seed()), torch.enable_grad():
            found = self._aggregate.call(twins, batch, copies)
        if tuple(found.shape) != self._shape:
            raise PrivacyError(
                f"the aggregate returned the shape {list(found.shape)}; it must be "
                f"{list(self._shape)}, as declared, for any number of records."
            )
        return found

    def _try(self, values: Values) -> None:
        """Refuse a callback that fails on made-up samples of some size: it could fail on a private
        one. The time of a step, on which the length of blocks rests, is taken here too."""
        usual = min(_MOST_TRIED, max(1, round(self.expected_batch)))
        device, like = self._door.device, self._records
        for rows in (1, 2, TRIAL_ROWS):
            self._tried(extreme_batch(like, rows, device), values)
        started = time.perf_counter()
        self._tried(random_batch(like, usual, device), values)
        self._seconds = (time.perf_counter() - started) * max(1.0, self.expected_batch / usual)

    def _tried(self, batch: Batch, values: Values) -> None:
        try:
            self._called(batch, values)
        except PrivacyError:
            raise
        except Exception as error:
            raise UserError(
                f"the aggregate fails on a sample of {len(batch)} made-up records, so it could "
                f"fail on private ones: {type(error).__name__}: {error}."
            ) from error
