"""The handle through which a method reaches private records: declared facts and mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import torch
from torch import nn

from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.errors import PrivacyError, UserError
from understudy.nets.rng_isolation import isolated_rng
from understudy.privacy.door.aggregate import Aggregate, AggregateSession
from understudy.privacy.door.batch import (
    TRIAL_ROWS,
    Batch,
    Draws,
    extreme_batch,
    make_batch,
    random_batch,
)
from understudy.privacy.door.ensemble import Ensemble, Train, make_shards
from understudy.privacy.door.planned import find_planned
from understudy.privacy.door.row_independence import (
    check_extremes,
    check_others_unmoved,
    check_places,
    check_rows,
)
from understudy.privacy.door.summation import Summation, Vectors
from understudy.privacy.door.vectors import check_width, dense, named_sum, packed, shape_of
from understudy.privacy.dpsgd.loss import Loss
from understudy.privacy.dpsgd.session import DPSGDSession
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.local.gaussian import LocalNoise
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    EXACT,
    ClippedAggregate,
    LocalRelease,
    NoisyHistogram,
    NoisySum,
    Reveal,
)
from understudy.privacy.plan.mechanisms.unit_sum import UnitSum
from understudy.privacy.plan.plan import Plan
from understudy.privacy.sums.clipping import Blocks, ClippedSum
from understudy.privacy.sums.grid import Grid, GridSum
from understudy.privacy.sums.units import Rows, UnitIndex

if TYPE_CHECKING:
    from understudy.privacy.door.door import Door

_ROWS_AT_ONCE = 256
_BAR = 100
"""Bars show percents: the realised number of records is private."""


class PrivateRecords:
    """A handle to private records: a method can call mechanisms on them, and cannot read them.

    Its attributes are declared and public: `schema`, `shape`, and `count`, the declared number of
    units (never the realised one). Records leave only as the outputs of the mechanisms below, each
    of which must stand unspent in the run's plan.
    """

    def __init__(
        self,
        door: Door,
        part: str,
        records: Records,
        count: int,
        summation: Summation,
        origin: Records | None = None,
    ) -> None:
        """origin: the records before any `map`."""
        self._door = door
        self._summation = summation
        self._records = records
        self._origin = records if origin is None else origin
        self._units = UnitIndex(records)
        self.part = part
        self.count = count

    @property
    def schema(self) -> Schema:
        return self._records.schema

    @property
    def shape(self) -> tuple[int, ...]:
        return self._records.shape

    def __len__(self) -> NoReturn:
        raise PrivacyError("the realised number of records is private; use .count.")

    def __iter__(self) -> NoReturn:
        raise PrivacyError("records stay behind the door; use a mechanism, or reveal(reason).")

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("a handle to private records cannot be copied or saved.")

    def map(self, fn: Callable[[torch.Tensor], torch.Tensor]) -> PrivateRecords:
        """A handle to the same records with `fn` applied to the features of each.

        Guarantee: no privacy cost and no event, because a record's new features depend on that
        record alone; an `fn` whose rows depend on each other is refused.
        """

        self._summation.allow("mapped records")

        def mapped(batch: Batch) -> torch.Tensor:
            return fn(batch.features)

        form = self._form(mapped, "map")
        with self._door.breaking():
            features = np.zeros((len(self._records), *form), np.float32)
            for values, rows, _ in self._apply(mapped, form):
                features[rows] = dense(values)[: len(rows)].float().cpu().numpy()
        old = self._records
        new = Records(features, old.attributes, old.schema, old.units)
        return PrivateRecords(self._door, self.part, new, self.count, self._summation, self._origin)

    def noisy_sum(
        self, vector_of: Callable[[Batch], Vectors], clip: float, sigma: float
    ) -> torch.Tensor:
        """The sum of one vector per unit, with Gaussian noise; float32 on the CPU.

        Guarantee: releases the sum over units of `vector_of` (summed over a unit's
        records, clipped to L2 norm `clip`), plus noise of standard deviation
        `sigma * clip`. Sensitivity `clip` under adding or removing one unit. Event: one
        Gaussian with multiplier `sigma`.

        Where the plan says exact noise, a unit's vector is truncated towards zero to whole steps
        of a public grid, so that its squared norm, in integers, is at most `sensitivity^2` steps;
        sum and noise are integers. Event: one discrete Gaussian, charged with multiplier `sigma`
        (the true one is at least that).
        """
        mechanism = find_planned(self._door, self.part, NoisySum, clip=clip, sigma=sigma)
        return self._noisy_sum(mechanism, vector_of)

    def noisy_histogram(
        self, bin_of: Callable[[Batch], torch.Tensor], bins: int, sigma: float
    ) -> torch.Tensor:
        """Counts over `bins` bins, with Gaussian noise; float32 on the CPU.

        Guarantee: each record counts once, in the bin that `bin_of` returns; a unit's counts are
        scaled to L2 norm at most 1, the sensitivity under adding or removing one unit. Noise of
        standard deviation `sigma`. Event: one Gaussian with multiplier `sigma`, or one discrete
        Gaussian where the plan says exact noise (see `noisy_sum`).
        """
        mechanism = find_planned(self._door, self.part, NoisyHistogram, bins=bins, sigma=sigma)

        def one_hot(batch: Batch) -> Blocks:
            chosen = bin_of(batch).long().clamp(0, bins - 1)
            return Blocks(torch.ones(len(chosen), 1, device=chosen.device), chosen, bins)

        return self._noisy_sum(mechanism, one_hot)

    def release(self, name: str, vector_of: Callable[[Batch], Vectors]) -> torch.Tensor:
        """One use of the planned `UnitSum` of this name, another package's too; on the CPU.

        Guarantee: that of the mechanism. The door clips each unit's vector to its `unit_norm`,
        sums, applies its `shaped`, adds noise of standard deviation `sigma * sensitivity`, and
        hands out its `finished` of that. The mechanism says all of it and does none of it, but
        that `shaped` moves no further than its `multiple` is its author's word (`check-method`
        measures it). Event: the mechanism's.
        """
        mechanism = named_sum(self._door, self.part, name)
        self._summation.allow_sum(mechanism)
        return mechanism.finished(self._noisy_sum(mechanism, vector_of))

    def dp_sgd(
        self,
        plan: Plan,
        models: Sequence[nn.Module],
        loss: Loss,
        draws: Draws | None = None,
        speed: Speed | None = None,
        name: str | None = None,
    ) -> DPSGDSession:
        """A session for the planned DP-SGD steps; see `DPSGDSession.step` for the guarantee.

        models: the session trains their parameters that need a gradient and reads all others.
        loss: a frozen dataclass, see `Loss`. draws: the random values it needs with every row.
        """
        if plan.ident != self._door.plan.ident:
            raise PrivacyError("this plan is not the run's plan; use the plan given to fit.")
        mechanism = find_planned(self._door, self.part, DPSGD, name)
        return DPSGDSession(
            self._door,
            mechanism,
            models,
            loss,
            draws or {},
            speed or Speed(),
            self._records,
            self.count,
            self._summation,
        )

    def clipped_aggregate(
        self,
        aggregate: Aggregate,
        shape: Sequence[int],
        models: Sequence[nn.Module] = (),
        name: str | None = None,
    ) -> AggregateSession:
        """A session of noisy vectors, each made of a Poisson sample as a whole; see
        `AggregateSession.step` for the guarantee.

        aggregate: a frozen dataclass, see `Aggregate`. shape: of what it returns, for any sample.
        """
        self._summation.allow("a clipped aggregate")
        mechanism = find_planned(self._door, self.part, ClippedAggregate, name)
        return AggregateSession(
            self._door, mechanism, aggregate, shape, models, self._records, self.count
        )

    def ensemble(self, shards: int, train: Train, name: str = "ensemble") -> Ensemble:
        """An ensemble of models, each trained on one of `shards` disjoint shards (PATE's teachers).
        Several in rounds need names, by which checkpoints know them.

        Guarantee: a unit's shard depends on a keyed hash of the unit alone, so adding or removing
        one unit changes one shard. Training has no privacy cost: neither a model nor an output of
        `train` leaves the ensemble. Each noisy answer is an event of its own.
        """
        self._summation.allow("an ensemble")
        parts = make_shards(self._records, self._origin, shards, self._door.shard_key)
        return Ensemble(self._door, self.part, parts, train, name)

    def transform(self, fn: Callable[[Records], Records], reason: str) -> Records:
        """Release records through `fn`.

        Guarantee: none, and the event is non-private, unless `fn` is one of privacy's own
        local mechanisms (`LocalNoise`), which draws its own noise; then the event is that
        mechanism's, per record under replace-one.
        """
        self._summation.allow("a record-by-record release")
        # Not a subclass, which could clip otherwise and have another sensitivity.
        if type(fn) is not LocalNoise:
            return fn(self.reveal(reason))
        mechanism = find_planned(
            self._door, self.part, LocalRelease, radius=fn.radius, sigma=fn.sigma
        )
        features = self._door.release(
            mechanism, 1, lambda: fn.clipped(self._records), 2 * fn.radius * fn.sigma
        )
        return Records(features.numpy(), {}, Schema(()))

    def reveal(self, reason: str) -> Records:
        """The raw records. Guarantee: none; the plan must say so and the claim will."""
        self._summation.allow("revealed records")
        if not reason.strip():
            raise UserError("reveal needs a reason that the claim can state.")
        planned = [
            m for m in self._door.plan.mechanisms if isinstance(m, Reveal) and m.part == self.part
        ]
        if not planned:
            raise PrivacyError(
                "the plan reveals nothing; a method that needs raw records plans a Reveal "
                "under Budget.empirical()."
            )
        self._door.reveal(planned[0])
        return self._records

    def _noisy_sum(
        self,
        mechanism: UnitSum,
        vector_of: Callable[[Batch], Vectors],
    ) -> torch.Tensor:
        door = self._door
        kept = door.kept_output(mechanism)
        if kept is not None:
            return kept
        form = self._form(vector_of, "vector_of")
        if len(form) != 1:
            raise PrivacyError(
                f"vector_of must return one vector a row; it gave rows of shape {list(form)}."
            )
        check_width(mechanism, form[0])
        # Whether every unit has one record is private, so the order of floating-point operations
        # may depend only on whether a unit column was declared.
        single = self._records.units is None

        def total_from(start: Callable[[], ClippedSum]) -> torch.Tensor:
            chunks = ((v, owners) for v, _, owners in self._apply(vector_of, form))
            return self._summation.one_shot(mechanism, start, chunks)

        if mechanism.arithmetic == EXACT:
            grid = Grid.of(mechanism.unit_norm, mechanism.sigma)
            on_grid = partial(GridSum, grid, form[0], door.device, single)
            return door.release(mechanism, 1, lambda: total_from(on_grid), grid)
        clipped = partial(ClippedSum, mechanism.unit_norm, form[0], door.device, single)
        shaped = shape_of(mechanism, form[0], door.device)
        deviation = mechanism.sigma * mechanism.sensitivity
        return door.release(mechanism, 1, lambda: shaped(total_from(clipped)), deviation)

    def _form(self, fn: Callable[[Batch], Vectors], what: str) -> tuple[int, ...]:
        """Check `fn` on random and extreme rows; returns the shape of its value for one row, which
        is therefore public."""
        like, device = self._records, self._door.device
        exact = any(m.arithmetic == EXACT for m in self._door.plan.mechanisms)
        with isolated_rng(self._door.noise.callback_stream_seed()), torch.no_grad():
            few = random_batch(like, TRIAL_ROWS, device)
            values = check_rows(lambda batch: dense(fn(batch)), few, what)
            check_extremes(packed(fn), extreme_batch(like, TRIAL_ROWS, device), what)
            check_others_unmoved(packed(fn), random_batch(like, _ROWS_AT_ONCE, device), what)
            if exact:
                many = random_batch(like, _ROWS_AT_ONCE * 3 // 2, device)
                check_places(packed(fn), many, what)
        return tuple(values.shape[1:])

    def _apply(
        self, fn: Callable[[Batch], Vectors], form: tuple[int, ...]
    ) -> Iterator[tuple[Vectors, Rows, Rows]]:
        """Call `fn` on all records in padded chunks: yields output, real rows, every row's unit."""
        door, size = self._door, _ROWS_AT_ONCE
        rows, owners = self._units.rows(np.arange(len(self._units)))
        with door.progress.task("reading private records", _BAR) as bar:
            for start in range(0, len(rows), size):
                part, own = rows[start : start + size], owners[start : start + size]
                missing = size - len(part)
                padded = np.concatenate([part, np.repeat(part[:1], missing)])
                with isolated_rng(door.noise.callback_stream_seed()), torch.no_grad():
                    output = fn(make_batch(self._records, padded, door.device))
                if tuple(output.shape) != (size, *form):
                    raise PrivacyError("a callback gave another shape than on random records.")
                yield output, part, np.concatenate([own, np.full(missing, -1)])
                bar.advance(_share(start + size, len(rows)) - _share(start, len(rows)))


def _share(rows: int, of: int) -> int:
    return _BAR * min(rows, of) // of
