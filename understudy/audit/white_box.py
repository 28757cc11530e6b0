"""A door with canaries behind it: real sampling, clipping and noise, and an observer.

Everything here exists for audits alone. An ordinary run builds a `Door` and can reach none
of it; an `AuditDoor` works only on a ledger whose first line says that the run is audited,
which no release may have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.audit.canaries import Planting
from understudy.audit.observer import Observer, Release
from understudy.data.records import Records
from understudy.errors import PrivacyError, UserError
from understudy.privacy.door.door import Door
from understudy.privacy.door.handles import make_handles
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.door.summation import Chunks, Summation
from understudy.privacy.dpsgd.engine import GradientEngine, GradientSum, padded
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.plan.mechanisms.unit_sum import UnitSum
from understudy.privacy.sums.clipping import Blocks, ClippedSum
from understudy.privacy.sums.gradient_pieces import Pieces
from understudy.privacy.sums.grid import Grid
from understudy.privacy.sums.units import Rows
from understudy.progress import Progress

if TYPE_CHECKING:
    from understudy.privacy.dpsgd.loss import Values

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
        """Handles as `handles` gives them, with the canaries in one part: as records, or, where
        somebody watches, as vectors of their own."""
        if self._observer is None:
            return self.handles({**parts, part: planting.records}, counts)
        summation = AuditSummation(self._observer, planting.joined, self.device)
        return make_handles(self, {**parts, part: planting.others}, counts, {part: summation})


class AuditSummation(Summation):
    """The sums of ordinary records, to which every canary that is present adds its own vector.

    A canary's vector is a coordinate of its own, clipped like anybody's, in the one sum that is
    released. In DP-SGD canaries are drawn like any other unit: they are the units behind the last
    ordinary one. The observer is told what all others add, as differential privacy allows it to
    know.
    """

    captures = False  # canaries and everybody else take one way to the sum

    def __init__(self, observer: Observer, joined: Rows, device: torch.device) -> None:
        """joined: the number of each canary that is present."""
        self._observer, self._joined = observer, joined
        self._device, self._ordinary = device, 0

    def allow(self, what: str) -> None:
        if what not in ("mapped records", "a record-by-record release"):
            raise UserError(
                f"gradient canaries cannot stand among {what}; audit it with --black-box."
            )

    def allow_sum(self, planned: UnitSum) -> None:
        """A canary's place in a sum is known, and not what `shaped` makes of it."""
        if not planned.is_plain or planned.multiple != 1:
            self.allow(f"what {planned.kind} makes of a sum")

    def sampled(self, units: int) -> int:
        self._ordinary = units
        return units + len(self._joined)

    def one_shot(
        self, planned: UnitSum, start: Callable[[], ClippedSum], chunks: Chunks
    ) -> torch.Tensor:
        release = Release(planned.kind, 1.0, planned.unit_norm, planned.sigma, 1.0)
        others, last = start(), -1
        # Beside the sum that is released, a float one of the others, for the observer alone.
        told = ClippedSum(planned.unit_norm, others.width, self._device, others.single)
        for vectors, owners in chunks:
            others.add(vectors, owners)
            told.add(vectors, owners)
            last = max(last, int(owners.max(initial=-1)))
        if self._observer.expect(told.finish(), release):
            for some in np.array_split(
                self._joined, -(-len(self._joined) // _CANARIES_AT_ONCE) or 1
            ):
                voices = self._observer.voices(some, others.width, release)
                others.add(voices, last + 1 + some)
        return others.finish()

    def step(
        self, planned: DPSGD, engine: GradientEngine, chosen: Rows, values: Values
    ) -> GradientSum:
        others = super().step(planned, engine, chosen[chosen < self._ordinary], values)
        present = self._joined[chosen[chosen >= self._ordinary] - self._ordinary]
        scale = engine.expected
        release = Release(planned.name, planned.rate, planned.clip, planned.sigma, scale)
        if not self._observer.expect(others.total, release) or not len(present):
            return others
        canaries = engine.vectors_sum(self._micro_batches(engine, present, release, values))
        return replace(others, total=others.total + canaries)

    def _micro_batches(
        self, engine: GradientEngine, present: Rows, release: Release, values: Values
    ) -> Iterator[tuple[Pieces, Rows]]:
        """Canaries as the backend gives everybody's gradients, in their precision and layout, so
        that the code that bounds the one bounds the other."""
        form = engine.gradient_form(values)
        voices, rows = self._observer.voices(present, engine.width, release), len(form)
        for start in range(0, len(present), rows):
            some = slice(start, start + rows)
            yield _as_gradients(voices, some, form, engine.device), padded(present[some], rows)


def _as_gradients(voices: Blocks, some: slice, form: Pieces, device: torch.device) -> Pieces:
    loud, places = voices.values[some, 0], voices.block[some]
    found, first = [], 0
    for piece in form.values:
        like = torch.zeros_like(piece, device=device)
        mine = (places >= first) & (places < first + piece[0].numel())
        where = torch.unravel_index(places[mine] - first, like.shape[1:])
        like[(mine.nonzero()[:, 0], *where)] = loud[mine].to(like.dtype)
        found.append(like)
        first += piece[0].numel()
    return Pieces(tuple(found))
