"""Planted faults: each breaks one rule of the house in memory, as published code has done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from understudy.data.records import Records
from understudy.privacy import door, ensemble, gradients, ledger, noise, private_records, sgd
from understudy.privacy.account_book import Book
from understudy.privacy.batch import Batch, Draws
from understudy.privacy.clipping import ClippedSum
from understudy.privacy.events import Gaussian
from understudy.privacy.gradients import GradientEngine
from understudy.privacy.mechanisms import EnsembleGradients, EnsembleVotes
from understudy.privacy.noise import NoiseSource
from understudy.privacy.units import Rows, UnitIndex

Fault = Callable[[pytest.MonkeyPatch], None]


# Rule 1


def noise_from_torch(patch: pytest.MonkeyPatch) -> None:
    """Noise by `torch.randn`: whoever knows the seed can take it off."""

    def normal(
        self: NoiseSource, shape: Any, device: Any = "cpu", dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        del self
        return torch.randn(shape, device=device, dtype=dtype)

    patch.setattr(NoiseSource, "normal", normal)


def noise_from_a_public_seed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(noise.os, "urandom", lambda count: b"0" * count)


def sampling_from_torch(patch: pytest.MonkeyPatch) -> None:
    def bernoulli(self: NoiseSource, count: int, rate: float, device: Any = "cpu") -> torch.Tensor:
        del self
        generator = torch.Generator().manual_seed(0)
        return torch.rand(count, generator=generator, device=device) < rate

    patch.setattr(NoiseSource, "bernoulli", bernoulli)


def callbacks_on_the_users_seed(patch: pytest.MonkeyPatch) -> None:
    for module in (gradients, private_records, ensemble):
        patch.setattr(module, "secluded", lambda _: nullcontext())


def stream_shared_after_fork(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(noise.os, "getpid", lambda: 1)


# Rule 2


def generators_not_put_back(patch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def seeded(seed: int) -> Iterator[None]:
        torch.manual_seed(seed)
        yield

    for module in (gradients, private_records, ensemble):
        patch.setattr(module, "secluded", seeded)


def loss_shown_to_the_method(patch: pytest.MonkeyPatch) -> None:
    step = sgd.DPSGDSession.step

    def telling(self: sgd.DPSGDSession, *arguments: Any, **named: Any) -> object:
        step(self, *arguments, **named)
        return self._door.owner_log._pending[-1] if self._door.owner_log._pending else 0.0

    patch.setattr(sgd.DPSGDSession, "step", telling)


def batch_size_shown_to_the_method(patch: pytest.MonkeyPatch) -> None:
    note = sgd.DPSGDSession._note

    def noting(self: sgd.DPSGDSession, result: gradients.GradientSum) -> None:
        note(self, result)
        self.last_batch = result.units  # type: ignore[attr-defined]
        self._engine.models[0].last_batch = result.units  # type: ignore[union-attr]

    patch.setattr(sgd.DPSGDSession, "_note", noting)
    _show(patch, "last_batch")


def _show(patch: pytest.MonkeyPatch, name: str) -> None:
    """The method reads the attribute after each step, as a careless one would."""
    step = sgd.DPSGDSession.step

    def reading(self: sgd.DPSGDSession, *arguments: Any, **named: Any) -> object:
        step(self, *arguments, **named)
        return getattr(self, name)

    patch.setattr(sgd.DPSGDSession, "step", reading)


def per_record_gradients_left_on_parameters(patch: pytest.MonkeyPatch) -> None:
    """As Opacus leaves them when its hooks sit on the caller's own model."""
    add = ClippedSum.add
    latest: list[torch.Tensor] = []

    def keeping(self: ClippedSum, vectors: Any, units: Rows) -> None:
        latest[:] = [vectors]
        add(self, vectors, units)

    assign = sgd._assign

    def leaving(parameters: Any, released: torch.Tensor, public: Any) -> None:
        assign(parameters, released, public)
        for parameter in parameters:
            if latest:
                parameter.grad_sample = latest[0]

    patch.setattr(ClippedSum, "add", keeping)
    patch.setattr(sgd, "_assign", leaving)
    step = sgd.DPSGDSession.step

    def reading(self: sgd.DPSGDSession, models: Any, *arguments: Any, **named: Any) -> object:
        step(self, models, *arguments, **named)
        first = next(models[0].parameters())
        return first.grad_sample.tolist() if hasattr(first, "grad_sample") else None

    patch.setattr(sgd.DPSGDSession, "step", reading)


def bars_that_count_records(patch: pytest.MonkeyPatch) -> None:
    apply = private_records.PrivateRecords._apply

    def counting(self: Any, fn: Any, form: Any) -> Iterator[Any]:
        patch.setattr(private_records, "_BAR", len(self._records))
        yield from apply(self, fn, form)

    patch.setattr(private_records.PrivateRecords, "_apply", counting)


def times_in_the_ledger(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(ledger._BODIES, "commit", {"block", "mechanism", "uses", "seconds"})
    commit_entry = ledger.Ledger.commit_entry

    def timed(self: ledger.Ledger, uses: int) -> ledger.Entry:
        body = {**commit_entry(self, uses).body, "seconds": time.perf_counter()}
        return ledger.next_entry(self._entries, "commit", body)

    patch.setattr(ledger.Ledger, "commit_entry", timed)


def blocks_as_long_as_their_records_take(patch: pytest.MonkeyPatch) -> None:
    """A block is committed when its private steps took too long: here, drew too many."""
    work: list[int] = []
    clipped_sum = GradientEngine.clipped_sum

    def counted(self: GradientEngine, *arguments: Any) -> gradients.GradientSum:
        result = clipped_sum(self, *arguments)
        work.append(result.units)
        return result

    checkpoint = door.Door.checkpoint

    def due(self: door.Door, snapshot: Any) -> None:
        checkpoint(self, snapshot)
        if sum(work) > 25 and self._done_in_block:
            work.clear()
            self.settle()

    patch.setattr(GradientEngine, "clipped_sum", counted)
    patch.setattr(door.Door, "checkpoint", due)


# Rule 3


def divided_by_the_realised_batch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        sgd.DPSGDSession,
        "expected_batch",
        property(lambda self: self.mechanism.rate * len(self._units)),
    )


# Rule 4


def last_micro_batch_dropped(patch: pytest.MonkeyPatch) -> None:
    batches = GradientEngine._micro_batches

    def whole_ones(
        self: GradientEngine, chosen: Rows, draws: Draws
    ) -> Iterator[tuple[Batch, Rows]]:
        return (pair for pair in batches(self, chosen, draws) if (pair[1] >= 0).all())

    patch.setattr(GradientEngine, "_micro_batches", whole_ones)


def padding_counted(patch: pytest.MonkeyPatch) -> None:
    add = ClippedSum.add

    def all_rows(self: ClippedSum, vectors: Any, units: Rows) -> None:
        add(self, vectors, np.where(units < 0, 10**6 + np.arange(len(units)), units))

    patch.setattr(ClippedSum, "add", all_rows)


def no_noise_when_nobody_joined(patch: pytest.MonkeyPatch) -> None:
    noised = door.Door.noised

    def sparing(self: door.Door, value: torch.Tensor, deviation: float) -> torch.Tensor:
        return noised(self, value, deviation) if value.any() else value.double()

    patch.setattr(door.Door, "noised", sparing)


def _clip_with(patch: pytest.MonkeyPatch, clip: Callable[[torch.Tensor, float], Any]) -> None:
    patch.setattr("understudy.privacy.clipping.clip_rows", clip)


def clipped_layer_by_layer(patch: pytest.MonkeyPatch) -> None:
    from understudy.privacy.clipping import clip_rows

    def by_halves(vectors: torch.Tensor, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [clip_rows(half.contiguous(), clip) for half in vectors.chunk(2, dim=1)]
        return torch.cat([p[0] for p in parts], dim=1), parts[0][1]

    _clip_with(patch, by_halves)


def clipped_in_half_precision(patch: pytest.MonkeyPatch) -> None:
    def coarse(vectors: torch.Tensor, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
        norms = vectors.bfloat16().norm(dim=1)
        factors = (clip / norms).clamp(max=1.0)
        scaled = (vectors.bfloat16() * factors.unsqueeze(1)).float() * (1 + 2**-8)
        return torch.nan_to_num(scaled, 0.0, 0.0, 0.0), norms.double()

    _clip_with(patch, coarse)


def not_finite_not_caught(patch: pytest.MonkeyPatch) -> None:
    def trusting(vectors: torch.Tensor, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
        norms = vectors.double().norm(dim=1)
        return vectors * (clip / norms).clamp(max=1.0).float().unsqueeze(1), norms

    _clip_with(patch, trusting)


def draws_clipped_apart(patch: pytest.MonkeyPatch) -> None:
    """Each noisy copy of an image is clipped by itself, and the copies are added up."""
    compute = GradientEngine._compute

    def apart(self: GradientEngine, backend: Any, loss: Any, batch: Batch) -> Any:
        many = self._mechanism.multiplicity
        values, copies = backend.per_record(loss, batch, 1)
        clipped = [_bounded(c, self._mechanism.clip) for c in copies]
        summed = torch.stack(clipped).reshape(-1, many, copies.shape[1]).sum(dim=1)
        return values.reshape(-1, many).mean(dim=1), summed

    def already_clipped(vectors: torch.Tensor, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
        del clip
        return torch.nan_to_num(vectors, 0.0, 0.0, 0.0), vectors.double().norm(dim=1)

    assert compute is not apart
    patch.setattr(GradientEngine, "_compute", apart)
    _clip_with(patch, already_clipped)


def _bounded(vector: torch.Tensor, clip: float) -> torch.Tensor:
    norm = vector.norm()
    return vector * (clip / norm).clamp(max=1.0) if torch.isfinite(norm) else vector * 0.0


# Rule 5


def shards_by_index(patch: pytest.MonkeyPatch) -> None:
    def by_index(records: Records, shards: int, key: bytes) -> np.ndarray:
        del key
        return np.arange(len(records)) % shards

    patch.setattr(ensemble, "shard_of", by_index)


# Rule 6


def units_ignored(patch: pytest.MonkeyPatch) -> None:
    make = UnitIndex.__init__

    def alone(self: UnitIndex, records: Records) -> None:
        make(self, Records(records.features, records.attributes, records.schema, None))

    patch.setattr(UnitIndex, "__init__", alone)


def records_of_a_unit_clipped_apart(patch: pytest.MonkeyPatch) -> None:
    def by_record(self: ClippedSum, rows: torch.Tensor, units: torch.Tensor) -> None:
        del units
        self._add_units(rows)

    patch.setattr(ClippedSum, "_add_grouped", by_record)


# Rule 8


def book_written_afterwards(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Book, "enter", lambda *_, **__: None)


# Rule 9


def aggregate_noised_for_one_clip(patch: pytest.MonkeyPatch) -> None:
    release = door.Door.release

    def halved(self: door.Door, mechanism: Any, uses: int, exact: Any, deviation: float) -> Any:
        half = deviation / 2 if isinstance(mechanism, EnsembleGradients) else deviation
        return release(self, mechanism, uses, exact, half)

    patch.setattr(door.Door, "release", halved)


def discount_for_shards(patch: pytest.MonkeyPatch) -> None:
    for kind in (EnsembleVotes, EnsembleGradients):

        def cheaper(self: Any, uses: int) -> tuple[Gaussian, ...]:
            return (Gaussian(self.sigma, max(1, uses // self.shards)),)

        patch.setattr(kind, "events", cheaper)


# The order


def noise_before_the_reservation(patch: pytest.MonkeyPatch) -> None:
    begin = door.Door._begin

    def hasty(self: door.Door, mechanism: Any, uses: int) -> None:
        self.noise.normal(1)
        begin(self, mechanism, uses)

    patch.setattr(door.Door, "_begin", hasty)


def output_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(door.Door, "_commit", lambda *_: None)
