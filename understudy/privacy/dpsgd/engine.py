"""Clipped gradient sums over sampled units, by whichever backend is fastest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from understudy.data.records import Records
from understudy.errors import PrivacyError, UserError
from understudy.privacy.door.batch import (
    TRIAL_ROWS,
    Batch,
    Draws,
    make_batch,
    random_batch,
    with_draws,
)
from understudy.privacy.door.rng_isolation import secluded
from understudy.privacy.door.row_independence import (
    Agreement,
    awakened,
    check_loss,
    confirmed,
    exact_arithmetic,
    gradient_of,
    refuse_mixing_layers,
)
from understudy.privacy.dpsgd.backends.base import GradientBackend, Loss, trainable
from understudy.privacy.dpsgd.backends.compiled import CompiledBackend
from understudy.privacy.dpsgd.backends.expanded import ExpandedBackend
from understudy.privacy.dpsgd.backends.vmap import VmapBackend
from understudy.privacy.dpsgd.capture import recorder_for
from understudy.privacy.dpsgd.cuda_graph import FEWEST_RECORDS, Part, RecordedPart, Trial
from understudy.privacy.dpsgd.knobs import knobs_of
from understudy.privacy.dpsgd.losses import CheckedLosses
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.sums.clipping import Clipped, ClippedSum, clip_into
from understudy.privacy.sums.gradient_pieces import Pieces, PieceSums
from understudy.privacy.sums.sums_check import check_sums
from understudy.privacy.sums.units import Rows, UnitIndex

_Found = TypeVar("_Found")


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
    """Computes the clipped gradient sum of one DP-SGD step for given models."""

    def __init__(
        self,
        models: Sequence[nn.Module],
        mechanism: DPSGD,
        speed: Speed,
        records: Records,
        units: UnitIndex,
        noise: NoiseSource,
        expected: float,
    ) -> None:
        self.models = list(models)
        self.parameters = trainable(models)
        self._all_parameters = _parameters_of(models)
        if not self.parameters:
            raise UserError("the models given to dp_sgd have no trainable parameter.")
        self.width = sum(p.numel() for p in self.parameters)
        self.step_seconds = 0.0
        self._mechanism, self._speed = mechanism, speed
        self._records, self._units, self._noise = records, units, noise
        self._expected = expected
        self.device = self.parameters[0].device
        self._rows = speed.records_at_once(
            self.width, mechanism.multiplicity, expected, fused=self.device.type == "cuda"
        )
        self._checked = CheckedLosses(models)
        self._backend: GradientBackend | None = None
        self._sums = PieceSums()
        self._recorded: RecordedPart | None = None
        self._may_record = speed.recorded and records.units is None
        self._checks = 0
        self._models_then: tuple[object, ...] | None = None
        self.notice = ""

    def serves(self, models: Sequence[nn.Module]) -> bool:
        """Whether this engine was made for these models, their parameters and what is trainable
        among them."""
        return (
            _same(self.models, models)
            and _same(self._all_parameters, _parameters_of(models))
            and _same(self.parameters, trainable(models))
        )

    @property
    def preparation(self) -> str:
        """What `prepare` mostly does, in words."""
        slow = self.device.type == "cuda" or self._speed.backend == "compiled"
        return "compiling the networks" if slow else "checking the loss"

    def is_prepared_for(self, loss: Loss) -> bool:
        return self._checked.knows(loss)

    def prepare(self, loss: Loss, draws: Draws) -> None:
        """Check a loss before its first use, and again when it or the models were turned (see
        `knobs_of`); choose the backend once.

        Looks at random data only, so it may raise and take its time without telling
        anything; `step_seconds` is what a step of the expected size takes.
        """
        if self.is_prepared_for(loss):
            return
        refuse_mixing_layers(self.models)
        self._recorded = None  # of another loss, another option of it, or another size
        with (
            secluded(self._noise.callback_stream_seed()),
            torch.enable_grad(),
            awakened(self.parameters),
        ):
            confirmed(partial(self._try_rows, loss), partial(self._single_draws, draws))
            found = self._renewed()
            if found is None:
                found = self._within_memory(partial(self._fastest, loss, draws))
            else:
                self._within_memory(partial(self._check_backend, found, loss, draws))
            self._sums = found.sums if isinstance(found, CompiledBackend) else PieceSums()
            self._backend = found
            if self._may_record and self._rows >= FEWEST_RECORDS:
                self._recorded = self._recording(loss, draws)
        self._checked.add(loss)
        self._models_then = knobs_of(self.models)
        self._checks += 1
        if self._checks == _MANY_CHECKS:
            self.notice = (
                "the loss, or something that it or its models hold, is another in almost every "
                "step (a counter, say), so it is checked again before each, which is slow."
            )

    def _renewed(self) -> GradientBackend | None:
        """The backend in use, with twins of the models as they are now; None if it has to be chosen
        anew. A compiled one stays, and is refused where it no longer computes what they do."""
        if self._backend is None or isinstance(self._backend, CompiledBackend):
            return self._backend
        now = knobs_of(self.models)
        if now is not None and now == self._models_then:
            return self._backend
        self._checked = CheckedLosses(self.models)  # what was checked was so with other twins
        make: Callable[[Sequence[nn.Module]], GradientBackend] = type(self._backend)
        try:
            return make(self.models)
        except _CANNOT:
            return None

    def _try_rows(self, loss: Loss, trial: Batch) -> None:
        """Refuse a loss that does not treat every row by itself."""
        check_loss(lambda batch: loss(self.models, batch), self.parameters, trial)

    def _random_rows(self, rows: int, number: int) -> Batch:
        """Made-up records; others for another number."""
        return random_batch(self._records, rows + number, self.device).rows(0, rows)

    def _single_draws(self, draws: Draws, number: int) -> Batch:
        return with_draws(self._random_rows(TRIAL_ROWS, number), draws, self._noise)

    def _all_draws(self, rows: int, draws: Draws, number: int) -> Batch:
        return self._dress(self._random_rows(rows, number), draws)

    def clipped_sum(self, loss: Loss, draws: Draws, chosen: Rows) -> GradientSum:
        """Sum over the chosen units of their gradients, each clipped once.

        Guarantee: as `ClippedSum`; a unit's gradient is summed over its records, each
        averaged over the mechanism's multiplicity, over all models' parameters. `chosen` is
        given: when memory runs out, its sum is begun again in smaller micro-batches, so a
        unit's chance to be sampled and the noise to come do not depend on that.
        """
        return self._within_memory(partial(self._checked_sum, loss, draws, chosen))

    def _checked_sum(self, loss: Loss, draws: Draws, chosen: Rows) -> GradientSum:
        """Smaller micro-batches are compiled anew: they are checked before they are used."""
        self.prepare(loss, draws)
        return self._sum(loss, draws, chosen)

    def _sum(self, loss: Loss, draws: Draws, chosen: Rows) -> GradientSum:
        total, losses = self._new_sum(), []
        recorded = self._recorded_for(loss, draws)
        for batch, owners in self._micro_batches(chosen, draws):
            real = int((owners >= 0).sum())
            if recorded is None:
                values = self._add(total, loss, batch, owners)
            else:
                part = recorded(batch, self._first(real))
                total.add_clipped(part.clipped, real)
                values = part.losses.clone()
            losses.append(values[:real])
        mean = torch.cat(losses).mean() if losses else torch.tensor(float("nan"))
        return GradientSum(total.finish(), total.units, total.clipped, mean)

    def _add(self, total: ClippedSum, loss: Loss, batch: Batch, owners: Rows) -> torch.Tensor:
        """Add a micro-batch; returns the losses of its records."""
        assert self._backend is not None
        with secluded(self._noise.callback_stream_seed()):
            values, gradients = self._compute(self._backend, loss, batch)
        total.add(gradients, owners)
        return values

    def _first(self, real: int) -> torch.Tensor:
        """Which records of a micro-batch are used: all but its padding."""
        return torch.arange(self._rows, device=self.device) < real

    def _recorded_for(self, loss: Loss, draws: Draws) -> RecordedPart | None:
        """The recording, if it serves; else it is dropped, and everything is computed."""
        if self._recorded is not None and not self._recorded.serves(loss, draws):
            self._recorded = None
            self._give_up_recording("the loss or the models are no longer as they were")
        return self._recorded

    def _recording(self, loss: Loss, draws: Draws) -> RecordedPart | None:
        """Of a micro-batch of random records, where that can be done and gives the same.

        What was checked before is computed if not. So memory that runs out here does not
        make micro-batches smaller: another size would have to be checked first.
        """
        record, rows = recorder_for(self.device), self._rows
        if record is None or not isinstance(self._backend, CompiledBackend):
            return None
        try:
            example = self._dress(random_batch(self._records, rows, self.device), draws)
            trial = Trial(partial(self._computed, loss), self.parameters, example, rows)
            work = partial(self._part, loss)
            made = RecordedPart(record, work, loss, draws, self.models, example, rows)
            trial.require(made, _TOLERANCE_REPLAYED[self._speed.precision])
            return made
        except _CANNOT as error:
            why = " ".join(str(error).split())[:_WORDS]
        self._give_up_recording(why)
        return None

    def _give_up_recording(self, why: str) -> None:
        self._may_record = False
        self.notice = f"private steps are not recorded, so they are slower: {why}"
        self._free_memory()

    def _computed(self, loss: Loss, batch: Batch, real: int) -> list[torch.Tensor]:
        """The losses of a micro-batch, and what its first records add."""
        total = self._new_sum()
        losses = self._add(total, loss, batch, padded(np.arange(real), self._rows))
        return [losses, total.finish()]

    def _part(self, loss: Loss, batch: Batch, used: torch.Tensor) -> Part:
        """What a micro-batch of single records adds.

        Guarantee: as `clip_into`; a record's gradient is averaged over the multiplicity.
        """
        assert self._backend is not None
        values, gradients = self._compute(self._backend, loss, batch)
        assert isinstance(gradients, Pieces)
        total = torch.zeros(self.width, dtype=torch.float64, device=self.device)
        clip = self._mechanism.clip
        norms = clip_into(total, gradients, used, clip, self._sums)
        return Part(values, Clipped(total, norms, clip))

    def _new_sum(self) -> ClippedSum:
        """The one bound on units' gradients, which an audit puts to the test too (a recording has
        `clip_into` of it)."""
        # Whether every unit has one record is private: only its declaration may choose between
        # orders of floating-point operations.
        single = self._records.units is None
        return ClippedSum(self._mechanism.clip, self.width, self.device, single, self._sums)

    def _micro_batches(self, chosen: Rows, draws: Draws) -> Iterator[tuple[Batch, Rows]]:
        """Fixed-shape micro-batches: the last is padded with repeats that count for nothing."""
        rows, owners = self._units.rows(chosen)
        for start in range(0, len(rows), self._rows):
            part, own = rows[start : start + self._rows], owners[start : start + self._rows]
            part = np.concatenate([part, np.repeat(part[:1], self._rows - len(part))])
            batch = make_batch(self._records, part, self.device)
            yield self._dress(batch, draws), padded(own, self._rows)

    def _dress(self, batch: Batch, draws: Draws) -> Batch:
        many = self._mechanism.multiplicity
        return with_draws(batch.repeat(many) if many > 1 else batch, draws, self._noise, many)

    def _within_memory(self, work: Callable[[], _Found]) -> _Found:
        """Do it; again with half the micro-batch as often as memory runs out."""
        while True:
            try:
                return work()
            except torch.OutOfMemoryError:
                if self._rows == 1:
                    raise
            self._rows = max(1, self._rows // 2)
            self._checked = CheckedLosses(self.models)
            self._recorded = None
            self._free_memory()

    def _free_memory(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _compute(
        self, backend: GradientBackend, loss: Loss, batch: Batch
    ) -> tuple[torch.Tensor, torch.Tensor | Pieces]:
        with self._in_use():
            return backend.per_record(loss, batch, self._mechanism.multiplicity)

    def _in_use(self) -> torch.autocast:
        """The precision in which private steps compute."""
        half = self._speed.precision == "bfloat16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=half)

    def _fastest(self, loss: Loss, draws: Draws) -> GradientBackend:
        """The fastest backend of those that get the gradients of random rows right; on a GPU
        the compiled one, if it is among them."""
        seconds: dict[GradientBackend, float] = {}
        failures: list[Exception] = []
        for make in _makers(self._speed.backend, self.device):
            try:
                backend = make(self.models)
                self._check_backend(backend, loss, draws)
                seconds[backend] = self._seconds(backend, loss, draws)
                if isinstance(backend, CompiledBackend):
                    break
            except torch.OutOfMemoryError:
                raise
            except _CANNOT as error:
                failures.append(error)
        if not seconds:
            raise PrivacyError(
                f"the gradients of the loss cannot be computed record by record: {failures[0]}"
            ) from failures[0]
        best = min(seconds, key=lambda b: seconds[b])
        self.step_seconds = seconds[best] * self._expected
        return best

    def _seconds(self, backend: GradientBackend, loss: Loss, draws: Draws) -> float:
        """Per record, on random data."""
        rows = self._rows if isinstance(backend, CompiledBackend) else min(self._rows, 64)
        trial = self._dress(random_batch(self._records, rows, self.device), draws)
        return _time(partial(self._compute, backend, loss, trial), self.device) / rows

    def _check_backend(self, backend: GradientBackend, loss: Loss, draws: Draws) -> None:
        """Refuse a backend whose gradients of random records are not those of each alone: by
        exact arithmetic, which leaves mixing no room, and in the precision that private steps
        have, where a network or a kernel may take another way."""
        if isinstance(backend, CompiledBackend):
            self._check_backend(backend.reference, loss, draws)
            trial, rows = partial(self._try_compiled, backend, loss), self._rows
        else:
            trial, rows = partial(self._try_backend, backend, loss), TRIAL_ROWS
        confirmed(trial, partial(self._all_draws, rows, draws))

    def _try_backend(self, backend: GradientBackend, loss: Loss, trial: Batch) -> None:
        with exact_arithmetic():
            found = backend.per_record(loss, trial, self._mechanism.multiplicity)[1]
            _require(
                backend, self._compare(found, range(TRIAL_ROWS), trial, loss), _EXACT_TOLERANCE
            )
        if self._speed.precision != "float32":
            self._check_in_use(backend, trial, range(TRIAL_ROWS), loss)

    def _try_compiled(self, backend: CompiledBackend, loss: Loss, trial: Batch) -> None:
        """Look at the compiled gradients of a full micro-batch, at its ends, where a kernel goes
        wrong first, and between them; compare their compiled sums with plain ones."""
        last = self._rows - 1
        looked_at = {min(1, last), max(0, last - 1), *np.linspace(0, last, _LOOKED_AT, dtype=int)}
        together = self._check_in_use(backend, trial, sorted(map(int, looked_at)), loss)
        assert isinstance(together, Pieces)
        check_sums(backend.sums, together)

    def _check_in_use(
        self, backend: GradientBackend, trial: Batch, records: Iterable[int], loss: Loss
    ) -> torch.Tensor | Pieces:
        """Gradients of a trial as private steps compute them, once some were checked."""
        found = self._compute(backend, loss, trial)[1]
        with self._in_use():
            agreement = self._compare(found, records, trial, loss)
        _require(backend, agreement, _TOLERANCE_IN_USE[self._speed.precision])
        return found

    def _compare(
        self, found: torch.Tensor | Pieces, records: Iterable[int], trial: Batch, loss: Loss
    ) -> Agreement:
        """With the gradients that each of these records has alone, by the models themselves."""
        many = self._mechanism.multiplicity
        agreement = Agreement("the loss")
        for record in records:
            values = loss(self.models, trial.rows(record * many, (record + 1) * many))
            alone = gradient_of(values.float().mean(), self.parameters)
            agreement.compare(found[record], alone)
        return agreement


def _require(backend: GradientBackend, agreement: Agreement, tolerance: float) -> None:
    if not agreement.within(tolerance):
        raise PrivacyError(f"{backend.name} computes other gradients than each record's own.")


_EXACT_TOLERANCE = 1e-3
"""Rounding of another algorithm (1.6e-5 in 41 layers on a GPU); a gradient that is given to
another record, or lost, is off by far more."""

_TOLERANCE_IN_USE = MappingProxyType({"float32": 1e-3, "bfloat16": 5e-2})
"""Kernels round in another order, and each product of bfloat16 numbers by 4e-3."""

_TOLERANCE_REPLAYED = MappingProxyType({"float32": 1e-3, "bfloat16": 1e-2})
"""The kernels are the same; some of them add in another order each time."""

_MANY_CHECKS = 10

_LOOKED_AT = 16
"""Records of a compiled micro-batch, evenly apart."""

_WORDS = 200
_CANNOT = (
    ImportError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    TypeError,
    AttributeError,
    NameError,
    UserError,
)
"""What a backend raises on models or losses that it cannot handle: their own mistakes were raised
before, when the loss was checked with the models themselves."""


def _makers(
    wanted: str, device: torch.device
) -> list[Callable[[Sequence[nn.Module]], GradientBackend]]:
    makers: dict[str, Callable[[Sequence[nn.Module]], GradientBackend]] = {
        "compiled": CompiledBackend,
        "expanded": ExpandedBackend,
        "vmap": VmapBackend,
        "opacus": _make_opacus,
    }
    if wanted != "auto":
        return [makers[wanted]]
    # On a CPU compiling takes longer than it ever saves.
    return [make for name, make in makers.items() if name != "compiled" or device.type == "cuda"]


def _make_opacus(models: Sequence[nn.Module]) -> GradientBackend:
    from understudy.privacy.dpsgd.backends.opacus import OpacusBackend

    return OpacusBackend(models)


def _time(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of the second of two calls."""
    work()
    _wait_for(device)
    start = time.perf_counter()
    work()
    _wait_for(device)
    return time.perf_counter() - start


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def padded(owners: Rows, rows: int) -> Rows:
    """Owners of a full micro-batch: rows that count for nothing have -1."""
    return np.concatenate([owners, np.full(rows - len(owners), -1)])


def _parameters_of(models: Sequence[nn.Module]) -> list[nn.Parameter]:
    return [parameter for model in models for parameter in model.parameters()]


def _same(ours: Sequence[object], theirs: Sequence[object]) -> bool:
    return [id(a) for a in ours] == [id(b) for b in theirs]
