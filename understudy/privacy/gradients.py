"""Clipped gradient sums over sampled units, by whichever backend is fastest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.privacy.backends.base import GradientBackend, Loss, trainable
from understudy.privacy.backends.vmap import VmapBackend
from understudy.privacy.batch import Batch, Draws, make_batch, random_batch, with_draws
from understudy.privacy.clipping import ClippedSum
from understudy.privacy.mechanisms import DPSGD
from understudy.privacy.noise import NoiseSource
from understudy.privacy.rowwise import check_loss, refuse_mixing_layers
from understudy.privacy.seclusion import secluded
from understudy.privacy.speed import Speed
from understudy.privacy.units import Rows, UnitIndex


@dataclass(frozen=True)
class GradientSum:
    """A clipped sum before noise, and figures that only the owner may see."""

    total: torch.Tensor
    units: int
    clipped: int
    mean_loss: float


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
        refuse_mixing_layers(models)
        self.models = list(models)
        self.parameters = trainable(models)
        if not self.parameters:
            raise UserError("the models given to dp_sgd have no trainable parameter.")
        self.width = sum(p.numel() for p in self.parameters)
        self._mechanism, self._speed = mechanism, speed
        self._records, self._units, self._noise = records, units, noise
        self._device = self.parameters[0].device
        self._rows = speed.records_at_once(self.width, mechanism.multiplicity, expected)
        self._checked: set[object] = set()
        self._backend: GradientBackend | None = None

    def clipped_sum(self, loss: Loss, draws: Draws, chosen: Rows) -> GradientSum:
        """Sum over the chosen units of their gradients, each clipped once.

        Guarantee: as `ClippedSum`; a unit's gradient is summed over its records, each
        averaged over the mechanism's multiplicity, over all models' parameters.
        """
        backend = self._prepare(loss, draws)
        total = ClippedSum(self._mechanism.clip, self.width, self._device, self._units.single)
        losses: list[torch.Tensor] = []
        for batch, owners in self._micro_batches(chosen, draws):
            with secluded(self._noise.callback_stream_seed()):
                values, gradients = self._compute(backend, loss, batch)
            total.add(gradients, owners)
            losses.append(values[: int((owners >= 0).sum())])
        mean = float(torch.cat(losses).mean()) if losses else float("nan")
        return GradientSum(total.finish(), total.units, total.clipped, mean)

    def _micro_batches(self, chosen: Rows, draws: Draws) -> Iterator[tuple[Batch, Rows]]:
        """Fixed-shape micro-batches: the last is padded with repeats that count for nothing."""
        rows, owners = self._units.rows(chosen)
        for start in range(0, len(rows), self._rows):
            part, own = rows[start : start + self._rows], owners[start : start + self._rows]
            missing = self._rows - len(part)
            part = np.concatenate([part, np.repeat(part[:1], missing)])
            own = np.concatenate([own, np.full(missing, -1)])
            yield self._dress(make_batch(self._records, part, self._device), draws), own

    def _dress(self, batch: Batch, draws: Draws) -> Batch:
        many = self._mechanism.multiplicity
        return with_draws(batch.repeat(many) if many > 1 else batch, draws, self._noise)

    def _compute(
        self, backend: GradientBackend, loss: Loss, batch: Batch
    ) -> tuple[torch.Tensor, torch.Tensor]:
        half = self._speed.precision == "bfloat16"
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=half):
            return backend.per_record(loss, batch, self._mechanism.multiplicity)

    def _prepare(self, loss: Loss, draws: Draws) -> GradientBackend:
        """Check a loss before its first use, and choose the backend once."""
        code = getattr(loss, "__code__", loss)
        if code not in self._checked:
            trial = with_draws(random_batch(self._records, 3, self._device), draws, self._noise)
            with secluded(self._noise.callback_stream_seed()):
                check_loss(lambda b: loss(self.models, b), self.parameters, trial)
            self._checked.add(code)
        if self._backend is None:
            self._backend = self._fastest(loss, draws)
        return self._backend

    def _fastest(self, loss: Loss, draws: Draws) -> GradientBackend:
        candidates = _candidates(self._speed.backend, self.models)
        if len(candidates) == 1:
            return candidates[0]
        rows = min(self._rows, 64)
        trial = self._dress(random_batch(self._records, rows, self._device), draws)
        times = {}
        for backend in candidates:
            with secluded(self._noise.callback_stream_seed()):
                times[backend.name] = _time(partial(self._compute, backend, loss, trial))
        return min(candidates, key=lambda b: times[b.name])


def _candidates(wanted: str, models: Sequence[nn.Module]) -> list[GradientBackend]:
    """The backends that can compute these models' gradients here."""
    candidates: list[GradientBackend] = []
    if wanted in ("auto", "vmap"):
        candidates.append(VmapBackend(models))
    if wanted in ("auto", "opacus"):
        try:
            from understudy.privacy.backends.opacus import OpacusBackend

            candidates.append(OpacusBackend(models))
        except (ImportError, NotImplementedError) as error:
            if wanted == "opacus":
                raise UserError(f"the opacus backend cannot be used here: {error}.") from error
    return candidates


def _time(work: Callable[[], object]) -> float:
    """Seconds of the second of two calls; infinite when the backend cannot do it."""
    try:
        work()
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    except (RuntimeError, NotImplementedError, ValueError):
        return float("inf")
