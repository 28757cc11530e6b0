"""Clipped sums of per-example gradients over the units that a step sampled.

Opacus spreads this over `GradSampleModule` and `DPOptimizer.clip_and_accumulate`; here one object
owns the gradient backend, its checks, the micro-batches and the CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import torch

from understudy.data.records import Records
from understudy.errors import PrivacyError
from understudy.nets.cuda_graph import capture_on
from understudy.nets.per_example.base import GradientBackend
from understudy.nets.per_example.choice import CANNOT, first_that_works, time_of
from understudy.nets.per_example.compiled import CompiledBackend
from understudy.nets.rng_isolation import isolated_rng
from understudy.privacy.door.batch import Batch, Draws, make_batch
from understudy.privacy.dpsgd.cuda_graph import (
    FEWEST_RECORDS,
    GraphedWork,
    GraphTrial,
    Part,
)
from understudy.privacy.dpsgd.fused_sums import FusedSums
from understudy.privacy.dpsgd.loss import BoundLoss, Values, form_of
from understudy.privacy.dpsgd.models import BoundModels
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.dpsgd.trials import RESERVE, Subject, Trial
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.sums.clipping import Clipped, ClippedSum, clip_into
from understudy.privacy.sums.gradient_pieces import Pieces, PieceSums
from understudy.privacy.sums.units import Rows, UnitIndex

_Found = TypeVar("_Found")

_TOLERANCE_REPLAYED = MappingProxyType({"float32": 1e-3, "bfloat16": 1e-2})
"""Relative difference allowed between a replay and the same kernels launched one by one: some of
them add in another order each time."""

_TIMED_ROWS = 64
_WORDS = 200


@dataclass(frozen=True)
class GradientSum:
    """A clipped sum before noise, and figures that only the owner may see.

    clipped (how many units were clipped) and mean_loss are scalars on the device of the gradients:
    reading them waits for the GPU, so the owner's log reads them when a block is committed.
    """

    total: torch.Tensor
    units: int
    clipped: torch.Tensor
    mean_loss: torch.Tensor


class GradientEngine:
    """Computes the clipped gradient sums of one DP-SGD session.

    Guarantee: that of `clipped_sum`, for the loss and models it was constructed with, provided that
    `run_trials` runs before the first sum and before every block of steps.
    """

    def __init__(
        self,
        bound: BoundModels,
        loss: BoundLoss,
        draws: Draws,
        mechanism: DPSGD,
        speed: Speed,
        records: Records,
        noise: NoiseSource,
        expected: float,
    ) -> None:
        """expected: units that this process samples in a step, on average, by declared counts."""
        self.bound, self.device, self.width = bound, bound.device, bound.width
        self.step_seconds = 0.0
        self.notice = ""
        self._loss, self._speed, self._records = loss, speed, records
        self._units, self._noise, self.expected = UnitIndex(records), noise, expected
        # Whether every unit has one record is private, so the order of floating-point operations
        # may depend only on whether a unit column was declared.
        self._single = records.units is None
        self._clip = mechanism.clip * (1 - RESERVE)
        self._multiplicity = mechanism.multiplicity
        self._rows = speed.records_at_once(
            self.width, mechanism.multiplicity, expected, fused=self.device.type == "cuda"
        )
        self._subject = Subject(
            loss, bound, draws, mechanism.multiplicity, speed.precision, records, noise
        )
        self._backend: GradientBackend | None = None
        self._sums = PieceSums()
        self._graph: GraphedWork | None = None
        self._may_capture = speed.cuda_graph and self._single
        self._values_form: object = None
        self._trials = 0
        self._form: Pieces | None = None

    @property
    def preparation(self) -> str:
        """What the next `run_trials` spends its time on, for a progress bar; "" if it is short."""
        if self._backend is not None:
            return ""
        slow = self.device.type == "cuda" or self._speed.backend == "compiled"
        return "compiling the networks" if slow else "checking the loss"

    def run_trials(self, values: Values) -> None:
        """Check loss, models and gradients on random records, and raise where one fails.

        The first call also chooses the backend, captures the CUDA graph, and sets `step_seconds`,
        the time of a step of the expected size.
        """
        self.require_unchanged()
        self._check_values(values)
        self._trials += 1
        trial = Trial(self._subject, values, self._trials, self._backend is not None)
        with trial.isolated():
            trial.check_loss()
            trial.check_nothing_kept()
            self._within_memory(partial(self._prepare, trial, values))
            trial.check_others_unmoved(self._others_sum, self._rows)

    def require_unchanged(self) -> None:
        """Raise if the loss or a model is no longer what the session bound."""
        self._loss.require_unchanged()
        self.bound.require_unchanged()

    def clipped_sum(self, chosen: Rows, values: Values) -> GradientSum:
        """Sum the gradients of the chosen units, each unit's clipped once.

        Guarantee: that of `ClippedSum` at the clip `(1 - RESERVE) * mechanism.clip`. A unit's
        gradient is the sum over its records of their gradients over all trained parameters, each
        averaged over the augmentation multiplicity. A record moves what the others add by at most
        half of `RESERVE`, in clips, as `Trial.check_others_unmoved` finds on random records; so a
        unit of one or two records moves the sum by at most the mechanism's clip, and one of more
        does where records move others by nothing, as on a CPU. When memory runs out, the sum over
        the same `chosen` units is begun again in smaller micro-batches: neither a unit's sampling
        probability nor the noise depends on that.
        """
        self._check_values(values)
        return self._within_memory(partial(self._sum, chosen, values))

    def vectors_sum(self, micro_batches: Iterator[tuple[Pieces, Rows]]) -> torch.Tensor:
        """The clipped sum of an audit's canary gradients, by the code that sums all others."""
        total = self._new_sum()
        for gradients, owners in micro_batches:
            if self._single:
                real = int((owners >= 0).sum())
                total.add_clipped(self._clipped(gradients, self._first(real)), real)
            else:
                total.add(gradients, owners)
        return total.finish()

    def gradient_form(self, values: Values) -> Pieces:
        """The shapes, memory layout and precision of a micro-batch's gradients, as meta tensors."""
        if self._form is None or len(self._form) != self._rows:
            assert self._backend is not None
            with isolated_rng(self._noise.callback_stream_seed()):
                batch = self._subject.random_rows(self._rows)
                found = self._subject.per_example(self._backend, batch, values)[1]
            self._form = Pieces(tuple(torch.empty_like(p, device="meta") for p in found.values))
        return self._form

    def _check_values(self, values: Values) -> None:
        form = form_of(values)
        if self._values_form is None:
            self._values_form = form
        if form != self._values_form:
            raise PrivacyError(
                "the values of a step must have the names, shapes and types of the first step's."
            )

    def _prepare(self, trial: Trial, values: Values) -> None:
        """Choose and check whatever depends on the micro-batch size; a smaller size repeats it."""
        if self._backend is None:
            found = first_that_works(
                self._speed.backend, self.bound.models, self.device, partial(self._try_out, trial)
            )
            self._backend = found
            self.step_seconds = self._seconds_per_record(found, values) * self.expected
            if self._may_capture and self._rows >= FEWEST_RECORDS:
                self._graph = self._captured(trial, values)

    def _try_out(self, trial: Trial, backend: GradientBackend) -> None:
        self._sums = PieceSums()
        if isinstance(backend, CompiledBackend):
            self._sums = FusedSums(backend.through)
        trial.check_backend(backend, self._sums, self._rows)

    def _seconds_per_record(self, backend: GradientBackend, values: Values) -> float:
        rows = self._rows if isinstance(backend, CompiledBackend) else min(self._rows, _TIMED_ROWS)
        batch = self._subject.random_rows(rows)
        return (
            time_of(partial(self._subject.per_example, backend, batch, values), self.device) / rows
        )

    def _others_sum(self, batch: Batch, values: Values, used: torch.Tensor) -> torch.Tensor:
        return self._part(batch, values, used).clipped.total / self._clip

    def _captured(self, trial: Trial, values: Values) -> GraphedWork | None:
        """A CUDA graph of a micro-batch, or None where there is none or its replay is off.

        Running out of memory here leaves the micro-batch size as it is: another size would need
        trials of its own.
        """
        capture, rows = capture_on(self.device), self._rows
        if capture is None or not isinstance(self._backend, CompiledBackend):
            return None
        try:
            trial.require_known_tensors()
            example = self._subject.random_rows(rows)
            wanted = GraphTrial(self._unmasked, self.bound.parameters, example, values, rows)
            made = GraphedWork(capture, self._work, example, values, rows, self._tensors_read)
            wanted.require(made, _TOLERANCE_REPLAYED[self._speed.precision])
            return made
        except CANNOT as error:
            self._give_up_capture(" ".join(str(error).split())[:_WORDS])
            return None

    def _give_up_capture(self, why: str) -> None:
        self._graph, self._may_capture = None, False
        self.notice = f"private steps run without a CUDA graph, so they are slower: {why}"
        self._free_memory()

    def _tensors_read(self) -> list[torch.Tensor]:
        models = self.bound.models
        own = [tensor for model in models for tensor in (*model.parameters(), *model.buffers())]
        return [*own, *self._loss.tensors]

    def _unmasked(self, batch: Batch, values: Values, real: int) -> list[torch.Tensor]:
        """What `_work` must return with its first `real` records used, by way of `ClippedSum`."""
        assert self._backend is not None
        losses, gradients = self._subject.per_example(self._backend, batch, values)
        total = self._new_sum()
        total.add(gradients, padded(np.arange(real), self._rows))
        return [losses, total.finish()]

    def _work(self, batch: Batch, values: Values, used: torch.Tensor) -> Part:
        """Losses and clipped sum of a micro-batch in which every record is a unit. Guarantee: that
        of `clip_into`."""
        assert self._backend is not None
        losses, gradients = self._subject.per_example(self._backend, batch, values)
        return Part(losses, self._clipped(gradients, used))

    def _clipped(self, gradients: Pieces, used: torch.Tensor) -> Clipped:
        total = torch.zeros(self.width, dtype=torch.float64, device=self.device)
        norms = clip_into(total, gradients, used, self._clip, self._sums)
        return Clipped(total, norms, self._clip)

    def _first(self, real: int) -> torch.Tensor:
        """The mask of a micro-batch's real records, which stand before its padding."""
        return torch.arange(self._rows, device=self.device) < real

    def _part(self, batch: Batch, values: Values, used: torch.Tensor) -> Part:
        """As `_work`, by replaying its CUDA graph where there is one."""
        if self._graph is not None and not self._graph.is_current():
            self._give_up_capture("the memory of the models' tensors has moved")
        return (self._graph or self._work)(batch, values, used)

    def _sum(self, chosen: Rows, values: Values) -> GradientSum:
        if self._backend is None:  # micro-batches became smaller: they are checked before use
            self.run_trials(values)
        total, losses = self._new_sum(), []
        for batch, owners in self._micro_batches(chosen):
            real = int((owners >= 0).sum())
            with isolated_rng(self._noise.callback_stream_seed()):
                losses.append(self._add(total, batch, owners, values)[:real].clone())
        mean = torch.cat(losses).mean() if losses else torch.tensor(float("nan"))
        return GradientSum(total.finish(), total.units, total.clipped, mean)

    def _add(self, total: ClippedSum, batch: Batch, owners: Rows, values: Values) -> torch.Tensor:
        """Add a micro-batch to `total`; returns the losses of its records."""
        assert self._backend is not None
        if not self._single:
            losses, gradients = self._subject.per_example(self._backend, batch, values)
            total.add(gradients, owners)
            return losses
        real = int((owners >= 0).sum())
        part = self._part(batch, values, self._first(real))
        total.add_clipped(part.clipped, real)
        return part.losses

    def _new_sum(self) -> ClippedSum:
        return ClippedSum(self._clip, self.width, self.device, self._single, self._sums)

    def _micro_batches(self, chosen: Rows) -> Iterator[tuple[Batch, Rows]]:
        """Micro-batches of one shape: padding repeats a record and has the owner -1, so that it
        adds zero to the sum."""
        rows, owners = self._units.rows(chosen)
        for start in range(0, len(rows), self._rows):
            part, own = rows[start : start + self._rows], owners[start : start + self._rows]
            part = np.concatenate([part, np.repeat(part[:1], self._rows - len(part))])
            batch = make_batch(self._records, part, self.device)
            yield self._subject.draw(batch, self._multiplicity), padded(own, self._rows)

    def _within_memory(self, work: Callable[[], _Found]) -> _Found:
        """Call `work`; each time memory runs out, halve the micro-batch and call it again."""
        while True:
            try:
                return work()
            except torch.OutOfMemoryError:
                if self._rows == 1:
                    raise
            self._rows = max(1, self._rows // 2)
            self._backend = self._graph = None
            self._free_memory()

    def _free_memory(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def padded(owners: Rows, rows: int) -> Rows:
    """The owners of a full micro-batch: -1 for each padding row."""
    return np.concatenate([owners, np.full(rows - len(owners), -1)])
