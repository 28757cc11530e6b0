"""Trials of a loss, its models and a gradient backend on made-up records.

Everything here looks at random or extreme rows only, so it may raise and take its time without
telling anything of a private record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
import torch

from understudy.data.records import Records
from understudy.errors import PrivacyError
from understudy.nets.per_example.base import GradientBackend
from understudy.nets.per_example.compiled import CompiledBackend
from understudy.nets.per_example.twins import copy_buffers, moved_buffers, twin_of
from understudy.privacy.door.batch import (
    TRIAL_ROWS,
    Batch,
    Draws,
    extreme_batch,
    random_batch,
    with_draws,
)
from understudy.privacy.door.rng_isolation import secluded
from understudy.privacy.door.row_independence import (
    Agreement,
    awakened,
    check_extremes,
    check_loss,
    confirmed,
    exact_arithmetic,
    gradient_of,
    with_another,
)
from understudy.privacy.dpsgd.fused_sums import check_sums
from understudy.privacy.dpsgd.loss import BoundLoss, Values
from understudy.privacy.dpsgd.models import BoundModels
from understudy.privacy.dpsgd.tensors_read import reads_others
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.sums.gradient_pieces import Pieces, PieceSums

RESERVE = 2.0**-20
"""The share of a mechanism's clip that stays free for what one record may move the others by:
gradients are clipped to the rest."""

_MOVED = RESERVE / 2
_EXACT_TOLERANCE = 1e-3
"""Rounding of another algorithm (1.6e-5 in 41 layers on a GPU); a gradient that is given to
another record, or lost, is off by far more."""

_TOLERANCE_IN_USE = MappingProxyType({"float32": 1e-3, "bfloat16": 5e-2})
"""Kernels round in another order, and each product of bfloat16 numbers by 4e-3. How much of another
record a gradient may hold is bounded apart, by `require_others_unmoved`."""

_LOOKED_AT = 16
"""Records of a compiled micro-batch, evenly apart."""

_LATER_ROWS, _READ_ROWS, _ATTEMPTS = 3, 2, 4

OthersSum = Callable[[Batch, Values, torch.Tensor], torch.Tensor]
"""From a micro-batch and which of its records are used to their clipped sum, in clips."""


@dataclass(frozen=True)
class Subject:
    """What is tried: a loss with its models, on rows of the form of private records.

    `like` gives shape and schema; none of its rows is looked at.
    """

    loss: BoundLoss
    bound: BoundModels
    draws: Draws
    multiplicity: int
    precision: str
    like: Records
    noise: NoiseSource

    @property
    def device(self) -> torch.device:
        return self.bound.device

    def computed(
        self, backend: GradientBackend, batch: Batch, values: Values
    ) -> tuple[torch.Tensor, Pieces]:
        """Losses and per-example gradients, in the precision of private steps."""
        with autocast(self.device, self.precision):
            found, gradients = backend.per_example(self.loss.call, batch, values, self.multiplicity)
        return found, Pieces(gradients)

    def draw(self, batch: Batch, times: int) -> Batch:
        """The batch with each record `times` times, and draws of its own for every row."""
        repeated = batch.repeat(times) if times > 1 else batch
        return with_draws(repeated, self.draws, self.noise, times)

    def made_up(self, records: int, number: int = 0, times: int = 0) -> Batch:
        """Random records, others for another number, each `times` times (0: the multiplicity)."""
        rows = random_batch(self.like, records, self.device, number)
        return self.draw(rows, times or self.multiplicity)

    def extremes(self) -> Batch:
        return self.draw(extreme_batch(self.like, TRIAL_ROWS, self.device), 1)


class Trial:
    """One trial, with the values of the step to come, through twins of the models.

    number: each trial has rows of its own. repeated: what is tried has passed before, in this size
    of micro-batches, so that fewer rows do.
    """

    def __init__(self, subject: Subject, values: Values, number: int, repeated: bool) -> None:
        self._subject, self._values = subject, values
        self._number, self._repeated = number, repeated
        self._twins = [twin_of(model) for model in subject.bound.models]

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Generators are put back afterwards; parameters that are zero are at random values."""
        seed = self._subject.noise.callback_stream_seed()
        with secluded(seed), torch.enable_grad(), awakened(self._subject.bound.parameters):
            yield

    def of_loss(self) -> None:
        """Refuse a loss that does not treat every row by itself, that fails on an extreme row, or
        whose passes move a buffer."""
        subject, rows = self._subject, _LATER_ROWS if self._repeated else TRIAL_ROWS
        confirmed(partial(check_loss, self._loss, subject.bound.parameters), self._rows_of(rows, 1))
        check_extremes(self._loss, subject.extremes(), "the loss")
        for model, twin in self._pairs():
            for name in moved_buffers(model, twin):
                raise PrivacyError(
                    f"a pass moves the buffer {name!r} of a model, by which one record would reach "
                    "another; use a layer that keeps no statistics of the rows it sees."
                )

    def of_backend(self, backend: GradientBackend, sums: PieceSums, records: int) -> None:
        """Refuse a backend whose gradients of random records are not those of each record alone: in
        exact arithmetic, and in the precision that private steps have, where a network or a kernel
        may take another way. A compiled one is tried on whole micro-batches of so many records, and
        the `sums` that add its gradients up beside plain ones."""
        plain = backend.reference if isinstance(backend, CompiledBackend) else backend
        few = self._rows_of(TRIAL_ROWS, self._subject.multiplicity)
        confirmed(partial(self._compare_exactly, plain), few)
        if isinstance(backend, CompiledBackend):
            whole = self._rows_of(records, self._subject.multiplicity)
            confirmed(partial(self._compare_compiled, backend, sums), whole)
        elif self._subject.precision != "float32":
            confirmed(partial(self._compare_in_use, backend, range(TRIAL_ROWS)), few)

    def of_company(self, others: OthersSum, records: int) -> None:
        """Refuse gradients by which one record reaches what the others add.

        One record of a random micro-batch becomes another; the clipped sum of all others, as
        private steps compute it, must then stay the same: bit for bit, or, where kernels add in
        another order each time, within half of `RESERVE`, which the clip leaves free.
        """
        subject = self._subject
        batch = subject.made_up(records, self._number)
        places = torch.arange(records, device=subject.device)
        everywhere = {0, records // 2, records - 1}
        for changed in {self._number % records} if self._repeated else everywhere:
            other = with_another(batch, changed, subject.multiplicity)
            before = others(batch, self._values, places != changed).clone()
            after = others(other, self._values, places != changed)
            moved = float((after - before).norm())
            if not moved <= _MOVED:
                raise PrivacyError(
                    f"one record moves what the others add by {moved:.2g} clips, so the records of "
                    "a batch mix; use layers that take every row by itself."
                )

    def require_known_tensors(self) -> None:
        """Refuse a loss that reads a tensor which nobody holds for a CUDA graph."""
        batch = self._subject.made_up(_READ_ROWS, times=1)  # all that they compute is held
        if reads_others(self._subject.loss, self._twins, batch, self._values):
            raise RuntimeError("the loss reads a tensor that is neither a model's nor its rows'")

    def _rows_of(self, rows: int, times: int) -> Callable[[int], Batch]:
        """Random rows of this trial, by the number of the attempt."""
        first = self._number * _ATTEMPTS
        return lambda attempt: self._subject.made_up(rows, first + attempt, times)

    def _loss(self, batch: Batch) -> torch.Tensor:
        for model, twin in self._pairs():
            copy_buffers(model, twin)
        return self._subject.loss.call(self._twins, batch, self._values)

    def _pairs(self) -> Iterator[tuple[torch.nn.Module, torch.nn.Module]]:
        yield from zip(self._subject.bound.models, self._twins, strict=True)

    def _compare_exactly(self, backend: GradientBackend, batch: Batch) -> None:
        subject = self._subject
        with exact_arithmetic():
            _, found = backend.per_example(
                subject.loss.call, batch, self._values, subject.multiplicity
            )
            agreement = self._with_each_alone(Pieces(found), range(TRIAL_ROWS), batch)
        _require(backend, agreement, _EXACT_TOLERANCE)

    def _compare_compiled(self, backend: CompiledBackend, sums: PieceSums, batch: Batch) -> None:
        """Records at both ends of a micro-batch, where a kernel goes wrong first, and between
        them."""
        last = len(batch) // self._subject.multiplicity - 1
        looked_at = {min(1, last), max(0, last - 1), *np.linspace(0, last, _LOOKED_AT, dtype=int)}
        found = self._compare_in_use(backend, sorted(map(int, looked_at)), batch)
        check_sums(sums, found)

    def _compare_in_use(
        self, backend: GradientBackend, some: Iterable[int], batch: Batch
    ) -> Pieces:
        subject = self._subject
        _, found = subject.computed(backend, batch, self._values)
        with autocast(subject.device, subject.precision):
            agreement = self._with_each_alone(found, some, batch)
        _require(backend, agreement, _TOLERANCE_IN_USE[subject.precision])
        return found

    def _with_each_alone(self, found: Pieces, some: Iterable[int], batch: Batch) -> Agreement:
        many, agreement = self._subject.multiplicity, Agreement("the loss")
        for record in some:
            value = self._loss(batch.rows(record * many, (record + 1) * many)).float().mean()
            agreement.compare(found[record], gradient_of(value, self._subject.bound.parameters))
        return agreement


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The precision in which private steps compute."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")


def _require(backend: GradientBackend, agreement: Agreement, tolerance: float) -> None:
    if not agreement.within(tolerance):
        raise PrivacyError(f"{backend.name} computes other gradients than each record's own.")
