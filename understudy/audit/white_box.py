"""A door with canaries behind it: real sampling, clipping and noise, and an observer.

Everything here exists for audits alone. An ordinary run builds a `Door` and can reach none
of it; an `AuditDoor` works only on a ledger whose first line says that the run is audited,
which no release may have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

import numpy as np
import torch
from torch import nn

from understudy.audit.canaries import Planting
from understudy.audit.observer import Observer, Release
from understudy.data.records import Records
from understudy.errors import PrivacyError, UserError
from understudy.privacy.door.batch import Batch, Draws, random_batch
from understudy.privacy.door.door import Door
from understudy.privacy.door.ensemble import Ensemble, Train
from understudy.privacy.door.private_records import PrivateRecords, Vectors
from understudy.privacy.door.rng_isolation import secluded
from understudy.privacy.dpsgd.backends.base import Loss
from understudy.privacy.dpsgd.engine import GradientEngine, GradientSum, padded
from understudy.privacy.dpsgd.session import DPSGDSession
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.plan.plan import Plan
from understudy.privacy.sums.clipping import Blocks, ClippedSum
from understudy.privacy.sums.gradient_pieces import Pieces
from understudy.privacy.sums.grid import Grid
from understudy.privacy.sums.units import Rows, UnitIndex
from understudy.progress import Progress

_CANARIES_AT_ONCE = 256
"""Where units have several records their vectors are written out, zeros and all."""


class AuditDoor(Door):
    """The door of an audit run; with an observer, canaries speak behind it.

    noise_factor: what all noise is multiplied with. Anything but 1 is a broken twin, made
    to see whether the audit notices.
    """

    def __init__(
        self,
        journal: Journal,
        noise: NoiseSource,
        *,
        device: torch.device,
        progress: Progress,
        shard_key: bytes,
        observer: Observer | None = None,
        noise_factor: float = 1.0,
    ) -> None:
        if journal.ledger.entries[0].body["run"].get("audited") is not True:
            raise PrivacyError("canaries may only stand behind the door of a run that is audited.")
        super().__init__(
            journal,
            noise,
            device=device,
            progress=progress,
            shard_key=shard_key,
            tape=observer,
        )
        self._observer = observer
        self._noise_factor = noise_factor

    def noised(self, value: torch.Tensor, deviation: float) -> torch.Tensor:
        return super().noised(value, deviation * self._noise_factor)

    def noised_on_grid(self, steps: torch.Tensor, grid: Grid) -> torch.Tensor:
        right = super().noised_on_grid(steps, grid)
        if self._noise_factor == 1:
            return right
        without = steps.double() * grid.step
        return without + self._noise_factor * (right - without)

    def planted_handles(
        self, parts: Mapping[str, Records], counts: Mapping[str, int], part: str, planting: Planting
    ) -> dict[str, PrivateRecords]:
        """Handles as `handles` gives them, with the canaries in one part."""
        handles = self.handles({**parts, part: planting.records}, counts)
        if self._observer is not None:
            handles[part] = AuditedRecords(self, part, planting, counts[part], self._observer)
        return handles


class AuditedRecords(PrivateRecords):
    """Private records among which canaries stand whose vectors the observer knows."""

    def __init__(
        self, door: AuditDoor, part: str, planting: Planting, count: int, observer: Observer
    ) -> None:
        super().__init__(door, part, planting.records, count)
        self._audit_door = door
        self._planting = planting
        self._observer = observer
        self._others = PrivateRecords(door, part, planting.others, count)
        self._release: Release | None = None

    def map(self, fn: Callable[[torch.Tensor], torch.Tensor]) -> PrivateRecords:
        mapped = super().map(fn)
        planting = Planting(mapped._records, self._planting.joined)
        return AuditedRecords(self._audit_door, self.part, planting, self.count, self._observer)

    def noisy_sum(
        self, vector_of: Callable[[Batch], Vectors], clip: float, sigma: float
    ) -> torch.Tensor:
        with self._joined_by_canaries(Release("noisy-sum", 1.0, clip, sigma, 1.0)):
            return super().noisy_sum(vector_of, clip, sigma)

    def noisy_histogram(
        self, bin_of: Callable[[Batch], torch.Tensor], bins: int, sigma: float
    ) -> torch.Tensor:
        with self._joined_by_canaries(Release("noisy-histogram", 1.0, 1.0, sigma, 1.0)):
            return super().noisy_histogram(bin_of, bins, sigma)

    def dp_sgd(
        self, plan: Plan, speed: Speed | None = None, name: str | None = None
    ) -> DPSGDSession:
        ordinary = super().dp_sgd(plan, speed, name)
        return _AuditedSession(
            self._audit_door,
            ordinary.mechanism,
            speed or Speed(),
            self._planting,
            self.count,
            self._observer,
        )

    def ensemble(self, shards: int, train: Train) -> Ensemble:
        del shards, train
        _refuse("an ensemble")

    def reveal(self, reason: str) -> Records:
        del reason
        _refuse("revealed records")

    @contextmanager
    def _joined_by_canaries(self, release: Release) -> Iterator[None]:
        self._release = release
        try:
            yield
        finally:
            self._release = None

    def _apply(
        self, fn: Callable[[Batch], Vectors], form: tuple[int, ...]
    ) -> Iterator[tuple[Vectors, Rows, Rows]]:
        """The vectors of all other units and, after them, those of the canaries.

        They meet in the one sum that the door makes of either; beside it the others are
        summed alone, for the observer.
        """
        if self._release is None:
            yield from super()._apply(fn, form)
            return
        release, width, single = self._release, form[0], self._others._records.units is None
        alone = ClippedSum(release.clip, width, self._door.device, single)
        for vectors, rows, owners in self._others._apply(fn, form):
            alone.add(vectors, owners)
            yield vectors, rows, owners
        joined = self._planting.joined
        if self._observer.expect(alone.finish(), release):
            first = len(self._others._records)
            for some in np.array_split(joined, -(-len(joined) // _CANARIES_AT_ONCE) or 1):
                yield self._observer.voices(some, width, release), some, first + some


class _AuditedSession(DPSGDSession):
    """DP-SGD steps in which a sampled canary's gradient is its own coordinate."""

    def __init__(
        self,
        door: AuditDoor,
        mechanism: DPSGD,
        speed: Speed,
        planting: Planting,
        count: int,
        observer: Observer,
    ) -> None:
        units = UnitIndex(planting.records)
        super().__init__(door, mechanism, speed, planting.records, units, count)
        self._observer = observer
        self._canary_of = _canary_of_unit(units, planting)

    def _engine_for(self, models: Sequence[nn.Module]) -> GradientEngine:
        if self._engine is None or not self._engine.serves(models):
            self._engine = _CanaryEngine(
                models,
                self.mechanism,
                self._speed,
                self._records,
                self._units,
                self._door.noise,
                self.expected_batch,
            )
            self._engine.watched_by(self._observer, self._canary_of)
        return self._engine


class _CanaryEngine(GradientEngine):
    """Sums the gradients of sampled units; canaries are sampled like any other unit."""

    _observer: Observer
    _canary_of: Rows
    _form: torch.Tensor | Pieces | None = None

    def watched_by(self, observer: Observer, canary_of: Rows) -> None:
        self._observer, self._canary_of = observer, canary_of
        self._may_record = False  # canaries and everybody else take one way to the sum

    def clipped_sum(self, loss: Loss, draws: Draws, chosen: Rows) -> GradientSum:
        canaries = self._canary_of[chosen]
        others = super().clipped_sum(loss, draws, chosen[canaries < 0])
        planned = self._mechanism
        release = Release(planned.name, planned.rate, planned.clip, planned.sigma, self._expected)
        total = self._new_sum()
        present = canaries[canaries >= 0]
        if self._observer.expect(others.total, release) and len(present):
            voices = self._observer.voices(present, self.width, release)
            for start in range(0, len(present), self._rows):
                some = slice(start, start + self._rows)
                total.add(self._as_gradients(voices, some), padded(present[some], self._rows))
        return replace(others, total=others.total + total.finish())

    def prepare(self, loss: Loss, draws: Draws) -> None:
        super().prepare(loss, draws)
        if self._form is None or len(self._form) != self._rows:
            assert self._backend is not None
            trial = self._dress(random_batch(self._records, self._rows, self.device), draws)
            with secluded(self._noise.callback_stream_seed()):
                self._form = _form_of(self._compute(self._backend, loss, trial)[1])

    def _as_gradients(self, voices: Blocks, some: slice) -> torch.Tensor | Pieces:
        """A micro-batch of canaries as the backend gives everybody's gradients, in their precision
        and layout, so that the code that bounds the one bounds the other."""
        assert self._form is not None
        pieces = self._form.values if isinstance(self._form, Pieces) else (self._form,)
        loud, places = voices.values[some, 0], voices.block[some]
        found, first = [], 0
        for piece in pieces:
            like = torch.zeros_like(piece, device=self.device)
            mine = (places >= first) & (places < first + piece[0].numel())
            where = torch.unravel_index(places[mine] - first, like.shape[1:])
            like[(mine.nonzero()[:, 0], *where)] = loud[mine].to(like.dtype)
            found.append(like)
            first += piece[0].numel()
        return Pieces(tuple(found)) if isinstance(self._form, Pieces) else found[0]


def _form_of(gradients: torch.Tensor | Pieces) -> torch.Tensor | Pieces:
    """Shape, layout and precision, without the values."""
    if isinstance(gradients, Pieces):
        return Pieces(tuple(torch.empty_like(g, device="meta") for g in gradients.values))
    return torch.empty_like(gradients, device="meta")


def _canary_of_unit(units: UnitIndex, planting: Planting) -> Rows:
    """For each unit the number of the canary it is, or -1."""
    rows, owners = units.rows(np.arange(len(units)))
    number = np.full(len(planting.records), -1)
    number[len(number) - len(planting.joined) :] = planting.joined
    found = np.full(len(units), -1)
    found[owners] = number[rows]
    return found


def _refuse(what: str) -> NoReturn:
    raise UserError(f"gradient canaries cannot stand among {what}; audit it with --black-box.")
