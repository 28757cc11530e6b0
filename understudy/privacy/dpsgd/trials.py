"""Checks of a loss, its models and a gradient backend on random and extreme records.

No check here reads a private record, so whether one raises and how long it takes is public. Opacus
checks a model's layers once (`ModuleValidator`); these checks look at what is computed.
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
from understudy.nets.rng_isolation import isolated_rng
from understudy.nets.tensors_kept import keeps_tensors
from understudy.nets.tensors_read import reads_unknown_tensors
from understudy.privacy.door.batch import (
    TRIAL_ROWS,
    Batch,
    Draws,
    extreme_batch,
    random_batch,
    with_draws,
)
from understudy.privacy.door.row_independence import (
    Agreement,
    check_extremes,
    check_loss,
    exact_arithmetic,
    gradient_of,
    raise_unless_rounding,
    with_record_replaced,
    zeros_randomised,
)
from understudy.privacy.dpsgd.fused_sums import check_sums
from understudy.privacy.dpsgd.loss import BoundLoss, Values
from understudy.privacy.dpsgd.models import BoundModels
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.sums.gradient_pieces import Pieces, PieceSums

RESERVE = 2.0**-20
"""The share of a mechanism's clip that covers what one record moves the others' sum by, when
kernels round in another order; gradients are clipped to the rest."""

_MOVED = RESERVE / 2
_EXACT_TOLERANCE = 1e-3
"""Relative. Another algorithm rounds otherwise (by 1.6e-5 in 41 layers on a GPU); a gradient that
is lost, or added to another record, is off by far more."""

_TOLERANCE_IN_USE = MappingProxyType({"float32": 1e-3, "bfloat16": 5e-2})
"""Relative. Kernels round in another order, and each product of bfloat16 numbers by 4e-3. A
separate and far tighter check bounds what one record does to others: `check_others_unmoved`."""

_COMPARED = 16
"""How many records of a compiled micro-batch are compared, at equal distances."""

_LATER_ROWS, _READ_ROWS, _ATTEMPTS = 3, 2, 4

OthersSum = Callable[[Batch, Values, torch.Tensor], torch.Tensor]
"""The clipped sum, in clips, of the records of a micro-batch that a mask (bool [records]) selects.
"""


@dataclass(frozen=True)
class Subject:
    """What a trial checks: a loss with its models, on rows of the shape of private records.

    `like` is read for its shape and schema alone, never for its rows.
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

    def per_example(
        self, backend: GradientBackend, batch: Batch, values: Values
    ) -> tuple[torch.Tensor, Pieces]:
        """Losses and per-example gradients, in the precision of private steps."""
        with autocast(self.device, self.precision):
            found, gradients = backend.per_example(self.loss.call, batch, values, self.multiplicity)
        return found, Pieces(gradients)

    def draw(self, batch: Batch, times: int) -> Batch:
        """The batch with each record `times` times, and fresh randomness for every row."""
        repeated = batch.repeat(times) if times > 1 else batch
        return with_draws(repeated, self.draws, self.noise, times)

    def random_rows(self, records: int, number: int = 0, times: int = 0) -> Batch:
        """Random records, which depend on `number`, each `times` times (0: the multiplicity)."""
        rows = random_batch(self.like, records, self.device, number)
        return self.draw(rows, times or self.multiplicity)

    def extremes(self) -> Batch:
        return self.draw(extreme_batch(self.like, TRIAL_ROWS, self.device), 1)


class Trial:
    """The checks before a block of steps, with the values of its first step.

    Passes go through twins of the models. number: seeds the random rows. repeated: the same loss
    and backend have passed at this micro-batch size, so that fewer rows are enough.
    """

    def __init__(self, subject: Subject, values: Values, number: int, repeated: bool) -> None:
        self._subject, self._values = subject, values
        self._number, self._repeated = number, repeated
        self._twins = [twin_of(model) for model in subject.bound.models]

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Run the checks on an isolated random stream, with random values for zero parameters."""
        seed = self._subject.noise.callback_stream_seed()
        with (
            isolated_rng(seed),
            torch.enable_grad(),
            zeros_randomised(self._subject.bound.parameters),
        ):
            yield

    def check_loss(self) -> None:
        """Refuse a loss whose rows depend on each other, that raises on an extreme row, or whose
        passes write into a buffer or into a tensor that the method holds too."""
        subject, rows = self._subject, _LATER_ROWS if self._repeated else TRIAL_ROWS
        before = {name: held.detach().clone() for name, held in self._shared()}
        check = partial(check_loss, self._loss, subject.bound.parameters)
        raise_unless_rounding(check, self._rows_of(rows, 1))
        check_extremes(self._loss, subject.extremes(), "the loss")
        for name, held in self._shared():
            old = before[name]
            if not bool(((held == old) | old.isnan()).all()):
                raise PrivacyError(
                    f"a pass writes into {name}, by which a record would reach the method and "
                    "other records; let the loss return its values and write nothing."
                )
        for model, twin in self._pairs():
            for name in moved_buffers(model, twin):
                raise PrivacyError(
                    f"a pass moves the buffer {name!r} of a model, by which one record would reach "
                    "another; use a layer that keeps no statistics of its inputs."
                )

    def check_nothing_kept(self) -> None:
        """Refuse passes that keep what they compute in a hook, a global or a class. The twins that
        a pass goes through here are gone when it is over, and with them what it left in them."""
        if not self._repeated and keeps_tensors(self._one_pass):
            raise PrivacyError(
                "a pass keeps tensors that it computed (in a hook, a global or a class), where a "
                "method could read of a record; let the loss return its values and keep nothing."
            )

    def _one_pass(self) -> tuple[list[torch.Tensor], Callable[[], object]]:
        subject = self._subject
        twins = [twin_of(model) for model in subject.bound.models]
        batch = subject.random_rows(_READ_ROWS, times=1)
        return batch.tensors, partial(subject.loss.call, twins, batch, self._values)

    def check_backend(self, backend: GradientBackend, sums: PieceSums, records: int) -> None:
        """Refuse a backend whose per-example gradients differ from those of each record alone.

        The comparison runs in full float32 (`_EXACT_TOLERANCE`), and in the precision of private
        steps (`_TOLERANCE_IN_USE`), where a network or a kernel may take another path. A compiled
        backend is compared on a whole micro-batch of `records`, and its `sums` with eager ones.
        """
        plain = backend.reference if isinstance(backend, CompiledBackend) else backend
        few = self._rows_of(TRIAL_ROWS, self._subject.multiplicity)
        raise_unless_rounding(partial(self._compare_exactly, plain), few)
        if isinstance(backend, CompiledBackend):
            whole = self._rows_of(records, self._subject.multiplicity)
            raise_unless_rounding(partial(self._compare_compiled, backend, sums), whole)
        elif self._subject.precision != "float32":
            raise_unless_rounding(partial(self._compare_in_use, backend, range(TRIAL_ROWS)), few)

    def check_others_unmoved(self, others: OthersSum, records: int) -> None:
        """Refuse gradients in which one record moves what the others add.

        One record of a random micro-batch is replaced. The clipped sum of all others, computed as
        private steps compute it, must stay the same to within half of `RESERVE`, in clips: rounding
        in another order may use up that much, and the clip leaves it free.
        """
        subject = self._subject
        batch = subject.random_rows(records, self._number)
        places = torch.arange(records, device=subject.device)
        everywhere = {0, records // 2, records - 1}
        for changed in {self._number % records} if self._repeated else everywhere:
            other = with_record_replaced(batch, changed, subject.multiplicity)
            before = others(batch, self._values, places != changed).clone()
            after = others(other, self._values, places != changed)
            moved = float((after - before).norm())
            if not moved <= _MOVED:
                raise PrivacyError(
                    f"one record moves what the others add by {moved:.2g} clips, so the records of "
                    "a batch mix; use layers that treat every row by itself."
                )

    def require_known_tensors(self) -> None:
        """Refuse to capture a loss that reads a tensor which a CUDA graph would not keep alive."""
        batch = self._subject.random_rows(_READ_ROWS, times=1)  # few: every intermediate is kept
        loss, values = self._subject.loss, self._values
        known = [*batch.tensors, *values.values(), *loss.tensors]
        work = partial(loss.call, self._twins, batch, values)
        if reads_unknown_tensors(work, known, self._twins):
            raise RuntimeError("the loss reads a tensor that is neither a model's nor its rows'")

    def _rows_of(self, rows: int, times: int) -> Callable[[int], Batch]:
        """The random rows of an attempt, by its number; no other trial has them."""
        first = self._number * _ATTEMPTS
        return lambda attempt: self._subject.random_rows(rows, first + attempt, times)

    def _loss(self, batch: Batch) -> torch.Tensor:
        for model, twin in self._pairs():
            copy_buffers(model, twin)
        return self._subject.loss.call(self._twins, batch, self._values)

    def _shared(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors that a pass and the method both hold, by names that an error can print."""
        for number, model in enumerate(self._subject.bound.models):
            for name, parameter in model.named_parameters():
                yield f"the parameter {name!r} of model {number}", parameter
        for name, value in self._values.items():
            yield f"the value {name!r}", value
        for number, held in enumerate(self._subject.loss.tensors):
            yield f"tensor {number} of the loss's fields", held

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
        """Compare records at both ends, where kernels go wrong first, and between them."""
        last = len(batch) // self._subject.multiplicity - 1
        places = {min(1, last), max(0, last - 1), *np.linspace(0, last, _COMPARED, dtype=int)}
        found = self._compare_in_use(backend, sorted(map(int, places)), batch)
        check_sums(sums, found)

    def _compare_in_use(
        self, backend: GradientBackend, some: Iterable[int], batch: Batch
    ) -> Pieces:
        subject = self._subject
        _, found = subject.per_example(backend, batch, self._values)
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
    """Autocast to the precision of private steps."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")


def _require(backend: GradientBackend, agreement: Agreement, tolerance: float) -> None:
    if not agreement.within(tolerance):
        raise PrivacyError(f"{backend.name} computes other gradients than each record's own.")
