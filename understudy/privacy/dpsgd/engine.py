"""Clipped gradient sums over sampled units, by whichever backend is fastest."""

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
from understudy.nets.per_example.base import GradientBackend
from understudy.nets.per_example.compiled import CompiledBackend
from understudy.privacy.door.batch import Batch, Draws, make_batch
from understudy.privacy.door.rng_isolation import secluded
from understudy.privacy.dpsgd.backend_choice import CANNOT, first_that_works, time_of
from understudy.privacy.dpsgd.cuda_graph import (
    FEWEST_RECORDS,
    GraphedWork,
    Part,
    capture_on,
)
from understudy.privacy.dpsgd.cuda_graph import Trial as GraphTrial
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
"""The kernels are the same; some of them add in another order each time."""

_TIMED_ROWS = 64
_WORDS = 200


@dataclass(frozen=True)
class GradientSum:
    """A clipped sum before noise, and figures that only the owner may see.

    clipped, mean_loss: single numbers that lie where the gradients do. To read them is to
    wait for the GPU, so that is left until somebody wants them.
    """

    total: torch.Tensor
    units: int
    clipped: torch.Tensor
    mean_loss: torch.Tensor


class GradientEngine:
    """Computes the clipped gradient sums of one DP-SGD session.

    Guarantee: as `clipped_sum`, for the loss and models that it was made with. `try_again` runs
    before the first sum and before every block of steps.
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
        """expected: the units that a step draws on average in this process, by declared figures."""
        self.bound, self.device, self.width = bound, bound.device, bound.width
        self.step_seconds = 0.0
        self.notice = ""
        self._loss, self._speed, self._records = loss, speed, records
        self._units, self._noise, self.expected = UnitIndex(records), noise, expected
        # Whether every unit has one record is private: only its declaration may choose between
        # orders of floating-point operations.
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
        """What `try_again` mostly does, in words."""
        if self._backend is not None:
            return ""
        slow = self.device.type == "cuda" or self._speed.backend == "compiled"
        return "compiling the networks" if slow else "checking the loss"

    def try_again(self, values: Values) -> None:
        """Try loss, models and gradients on made-up records; the first time, choose the backend and
        capture a CUDA graph. `step_seconds` is then what a step of the expected size takes."""
        self.require_unchanged()
        self._check_values(values)
        self._trials += 1
        trial = Trial(self._subject, values, self._trials, self._backend is not None)
        with trial.apart():
            trial.of_loss()
            self._within_memory(partial(self._prepare, trial, values))
            trial.of_company(self._others_sum, self._rows)

    def require_unchanged(self) -> None:
        """Refuse to go on with a loss or models that are not what the session bound."""
        self._loss.require_unchanged()
        self.bound.require_unchanged()

    def clipped_sum(self, chosen: Rows, values: Values) -> GradientSum:
        """Sum over the chosen units of their gradients, each clipped once.

        Guarantee: as `ClippedSum`, with a clip that leaves `RESERVE` of the mechanism's free: a
        unit's gradient is summed over its records, each averaged over the multiplicity, over all
        trained parameters. A record moves what the others add by no more than is left free
        (`Trial.of_company`), so one unit moves the sum by at most the mechanism's clip. `chosen` is
        given: when memory runs out, its sum is begun again in smaller micro-batches, so a unit's
        chance to be sampled and the noise to come do not depend on that.
        """
        self._check_values(values)
        return self._within_memory(partial(self._tried_sum, chosen, values))

    def vectors_sum(self, micro_batches: Iterator[tuple[Pieces, Rows]]) -> torch.Tensor:
        """The clipped sum of gradients that an audit gives, on the way that everybody's take."""
        total = self._new_sum()
        for gradients, owners in micro_batches:
            if self._single:
                real = int((owners >= 0).sum())
                total.add_clipped(self._clipped(gradients, self._first(real)), real)
            else:
                total.add(gradients, owners)
        return total.finish()

    def gradient_form(self, values: Values) -> Pieces:
        """Shape, layout and precision of a micro-batch's gradients, without their values."""
        if self._form is None or len(self._form) != self._rows:
            assert self._backend is not None
            with secluded(self._noise.callback_stream_seed()):
                batch = self._subject.made_up(self._rows)
                found = self._subject.computed(self._backend, batch, values)[1]
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
        """Everything that depends on the size of micro-batches: smaller ones are tried anew."""
        if self._backend is None:
            found = first_that_works(
                self._speed.backend, self.bound.models, self.device, partial(self._try_out, trial)
            )
            self._backend = found
            self.step_seconds = self._seconds_per_record(found, values) * self.expected
            if self._may_capture and self._rows >= FEWEST_RECORDS:
                self._graph = self._captured(trial, values)

    def _try_out(self, trial: Trial, backend: GradientBackend) -> None:
        self._sums = _sums_for(backend)
        trial.of_backend(backend, self._sums, self._rows)

    def _seconds_per_record(self, backend: GradientBackend, values: Values) -> float:
        rows = self._rows if isinstance(backend, CompiledBackend) else min(self._rows, _TIMED_ROWS)
        batch = self._subject.made_up(rows)
        return time_of(partial(self._subject.computed, backend, batch, values), self.device) / rows

    def _others_sum(self, batch: Batch, values: Values, used: torch.Tensor) -> torch.Tensor:
        return self._part(batch, values, used).clipped.total / self._clip

    def _captured(self, trial: Trial, values: Values) -> GraphedWork | None:
        """A CUDA graph of a micro-batch, where that can be had and gives what is computed.

        Memory that runs out here does not make micro-batches smaller: another size would have to be
        tried first.
        """
        capture, rows = capture_on(self.device), self._rows
        if capture is None or not isinstance(self._backend, CompiledBackend):
            return None
        try:
            trial.require_known_tensors()
            example = self._subject.made_up(rows)
            wanted = GraphTrial(self._computed, self.bound.parameters, example, values, rows)
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

    def _computed(self, batch: Batch, values: Values, real: int) -> list[torch.Tensor]:
        """The losses of a micro-batch, and the sum of its first records, as `ClippedSum` has it."""
        assert self._backend is not None
        losses, gradients = self._subject.computed(self._backend, batch, values)
        total = self._new_sum()
        total.add(gradients, padded(np.arange(real), self._rows))
        return [losses, total.finish()]

    def _work(self, batch: Batch, values: Values, used: torch.Tensor) -> Part:
        """What a micro-batch of single records adds. Guarantee: as `clip_into`."""
        assert self._backend is not None
        losses, gradients = self._subject.computed(self._backend, batch, values)
        return Part(losses, self._clipped(gradients, used))

    def _clipped(self, gradients: Pieces, used: torch.Tensor) -> Clipped:
        total = torch.zeros(self.width, dtype=torch.float64, device=self.device)
        norms = clip_into(total, gradients, used, self._clip, self._sums)
        return Clipped(total, norms, self._clip)

    def _first(self, real: int) -> torch.Tensor:
        """Which records of a micro-batch are used: all but its padding."""
        return torch.arange(self._rows, device=self.device) < real

    def _part(self, batch: Batch, values: Values, used: torch.Tensor) -> Part:
        """As `_work`, replayed where there is a CUDA graph of it."""
        if self._graph is not None and not self._graph.is_current():
            self._give_up_capture("the tensors of the models lie elsewhere than they did")
        return (self._graph or self._work)(batch, values, used)

    def _tried_sum(self, chosen: Rows, values: Values) -> GradientSum:
        """Micro-batches of another size are compiled anew: they are tried before they are used."""
        if self._backend is None:
            self.try_again(values)
        return self._sum(chosen, values)

    def _sum(self, chosen: Rows, values: Values) -> GradientSum:
        total, losses = self._new_sum(), []
        for batch, owners in self._micro_batches(chosen):
            real = int((owners >= 0).sum())
            with secluded(self._noise.callback_stream_seed()):
                losses.append(self._add(total, batch, owners, values)[:real].clone())
        mean = torch.cat(losses).mean() if losses else torch.tensor(float("nan"))
        return GradientSum(total.finish(), total.units, total.clipped, mean)

    def _add(self, total: ClippedSum, batch: Batch, owners: Rows, values: Values) -> torch.Tensor:
        """Add a micro-batch; returns the losses of its records."""
        assert self._backend is not None
        if not self._single:
            losses, gradients = self._subject.computed(self._backend, batch, values)
            total.add(gradients, owners)
            return losses
        real = int((owners >= 0).sum())
        part = self._part(batch, values, self._first(real))
        total.add_clipped(part.clipped, real)
        return part.losses

    def _new_sum(self) -> ClippedSum:
        return ClippedSum(self._clip, self.width, self.device, self._single, self._sums)

    def _micro_batches(self, chosen: Rows) -> Iterator[tuple[Batch, Rows]]:
        """Fixed-shape micro-batches: the last is padded with repeats that count for nothing."""
        rows, owners = self._units.rows(chosen)
        for start in range(0, len(rows), self._rows):
            part, own = rows[start : start + self._rows], owners[start : start + self._rows]
            part = np.concatenate([part, np.repeat(part[:1], self._rows - len(part))])
            batch = make_batch(self._records, part, self.device)
            yield self._subject.draw(batch, self._multiplicity), padded(own, self._rows)

    def _within_memory(self, work: Callable[[], _Found]) -> _Found:
        """Do it; again with half the micro-batch as often as memory runs out."""
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


def _sums_for(backend: GradientBackend) -> PieceSums:
    return FusedSums(backend.through) if isinstance(backend, CompiledBackend) else PieceSums()


def padded(owners: Rows, rows: int) -> Rows:
    """Owners of a full micro-batch: rows that count for nothing have -1."""
    return np.concatenate([owners, np.full(rows - len(owners), -1)])
