"""What exact noise promises, as checks on a running door, and faults planted against it.

As in `rules.py`, a check is a function from an empty folder to whether the promise holds.
Sigma is 64 and the clip a power of two, so that every step comes back from float32 whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.privacy.noise.discrete_checks import fits
from tests.privacy.rig import Silence, fits_noise, handle, open_door, pixels, records, vectors
from understudy.audit.noise_tests import SAMPLES
from understudy.data.records import Records
from understudy.errors import PrivacyError
from understudy.privacy.accounting.accountants import price
from understudy.privacy.door import door, private_records, summation
from understudy.privacy.door.batch import Batch
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.events import Gaussian
from understudy.privacy.plan.mechanisms import NoisyHistogram, NoisySum
from understudy.privacy.sums import grid
from understudy.privacy.sums.clipping import clip_rows
from understudy.privacy.sums.grid import NOISE_STEPS, Grid

CLIP, SIGMA, WIDTH = 0.5, 64.0, 300
SUM = NoisySum("sum", clip=CLIP, sigma=SIGMA, noise="exact")
HISTOGRAM = NoisyHistogram("counts", bins=3, sigma=SIGMA, noise="exact")
GRID = Grid(CLIP, 2**18)
Fault = Callable[[pytest.MonkeyPatch], None]


def features(batch: Batch) -> torch.Tensor:
    return batch.features


def summed_steps(folder: Path, data: Records) -> list[int]:
    """What the noise would be added to, as whole numbers; far off where it is not."""
    private = handle(folder, data, SUM, count=4, noise=Silence())
    released = private.noisy_sum(features, clip=CLIP, sigma=SIGMA).double() / GRID.step
    return [int(v) if float(v).is_integer() else 2**40 + i for i, v in enumerate(released)]


# The checks


def one_unit_moves_the_sum_by_at_most_the_sensitivity(folder: Path) -> bool:
    """In integers, after rounding, for units made to be rounded up."""
    rng = np.random.default_rng(0)
    others = rng.normal(size=(3, WIDTH)) * 0.01
    before = summed_steps(folder / "before", vectors(others))
    if max(before) >= 2**40:
        return False
    units = [np.full(WIDTH, 1.0), np.full(WIDTH, -1.0), np.full(WIDTH, np.nan)]
    units += [np.full(WIDTH, 1e20), *rng.normal(size=(4, WIDTH))]
    for number, unit in enumerate(units):
        more = vectors(np.vstack([unit[None], others]))
        after = summed_steps(folder / str(number), more)
        moved = sum((a - b) ** 2 for a, b in zip(after, before, strict=True))
        if moved > GRID.sensitivity**2:
            return False
    return True


def the_grid_is_public(folder: Path) -> bool:
    """A record's steps are those of clip and sigma, whatever else is in the data."""
    small = np.full((1, WIDTH), 10.75 * GRID.step)
    large = np.zeros((1, WIDTH))
    large[0, 0] = 0.4
    alone = summed_steps(folder / "alone", vectors(small))
    beside = summed_steps(folder / "beside", vectors(np.vstack([small, large])))
    return alone == [10] * WIDTH and beside[1:] == alone[1:]


def noise_is_whole_and_of_its_scale(folder: Path) -> bool:
    """Right before it is scaled to floats, and after a whole release; both sides."""
    where = open_door(folder / "door", SUM)
    noisy = where.noised_on_grid(torch.zeros(SAMPLES, dtype=torch.int64), GRID)
    steps = (noisy / GRID.step).numpy()
    if not (np.round(steps) == steps).all() or not fits(steps.astype(np.int64), NOISE_STEPS):
        return False
    private = handle(folder / "run", records(3), SUM)
    wide = private.noisy_sum(lambda b: torch.zeros(len(b), 20_000), clip=CLIP, sigma=SIGMA)
    return fits_noise(wide.double().numpy(), SIGMA * CLIP)


def histograms_count_whole_units(folder: Path) -> bool:
    """Every record counts as one, exactly; a unit's several records as one together."""
    data = records(40, seed=2)
    counts = np.bincount(data.labels, minlength=3).tolist()
    private = handle(folder / "one", data, HISTOGRAM, noise=Silence())
    found = private.noisy_histogram(lambda b: b.labels, bins=3, sigma=SIGMA).tolist()
    same = records(9, seed=3, units=["p"] * 9)
    private = handle(folder / "two", same, HISTOGRAM, noise=Silence())
    person = private.noisy_histogram(lambda b: b.labels, bins=3, sigma=SIGMA).double()
    return found == counts and float((person**2).sum()) <= 1


def places_are_checked(folder: Path) -> bool:
    """A callback whose last bits hang on where a row stands is refused."""

    def by_place(batch: Batch) -> torch.Tensor:
        return pixels(batch) + 1e-7 * torch.arange(len(batch)).unsqueeze(1)

    try:
        handle(folder, records(5), SUM).noisy_sum(by_place, clip=CLIP, sigma=SIGMA)
    except PrivacyError as error:
        return "last bits" in str(error)
    return False


def the_price_is_that_of_the_discrete_gaussian(folder: Path) -> bool:
    """By RDP, for the whole plan, and never below what a Gaussian of its sigma costs."""
    del folder
    for mechanism in (SUM, HISTOGRAM):
        cost = price(mechanism.events(1), 1e-5)
        if not cost.accountant.startswith("RDP"):
            return False
        if cost.epsilon < price([Gaussian(SIGMA)], 1e-5).epsilon:
            return False
    return True


# The faults


def _to_grid_with(
    patch: pytest.MonkeyPatch, to_grid: Callable[[torch.Tensor, Grid], torch.Tensor]
) -> None:
    def replaced(rows: torch.Tensor, on: Grid) -> tuple[torch.Tensor, torch.Tensor]:
        return to_grid(rows, on), rows.double().norm(dim=1)

    patch.setattr(grid, "to_grid", replaced)


def rounded_to_nearest(patch: pytest.MonkeyPatch) -> None:
    """Clipped, then rounded to the nearest step, which can be longer."""
    _to_grid_with(
        patch,
        lambda rows, on: (
            torch.nan_to_num(clip_rows(rows, on.clip)[0].double() / on.step).round().to(torch.int64)
        ),
    )


def bounded_before_rounding(patch: pytest.MonkeyPatch) -> None:
    """Clipped in floats, then rounded down: negative vectors get longer."""
    _to_grid_with(
        patch,
        lambda rows, on: (
            torch.nan_to_num(clip_rows(rows, on.clip)[0].double() / on.step).floor().to(torch.int64)
        ),
    )


def grid_from_the_data(patch: pytest.MonkeyPatch) -> None:
    """The step is a part of the longest vector seen, to lose fewer digits."""
    honest = grid.to_grid

    def fitted(rows: torch.Tensor, on: Grid) -> torch.Tensor:
        longest = min(on.clip, float(rows.double().norm(dim=1).max()))
        steps, _ = honest(rows, Grid(longest, on.sensitivity))
        return (steps.double() * (longest / on.clip)).round().to(torch.int64)

    _to_grid_with(patch, fitted)


def rounding_after_the_sum(patch: pytest.MonkeyPatch) -> None:
    """Vectors are added up as floats; the sum is rounded, and its sensitivity is not known."""
    honest = summation.Summation.one_shot

    def late(self: Any, planned: Any, start: Any, chunks: Any) -> torch.Tensor:
        width = start().width
        floats = partial(summation.ClippedSum, CLIP, width, torch.device("cpu"), True)
        return (honest(self, planned, floats, chunks) / GRID.step).round().to(torch.int64)

    patch.setattr(summation.Summation, "one_shot", late)


def noise_in_floats(patch: pytest.MonkeyPatch) -> None:
    def noised(self: door.Door, steps: torch.Tensor, on: Grid) -> torch.Tensor:
        return self.noised(steps * on.step, NOISE_STEPS * on.step)

    patch.setattr(door.Door, "noised_on_grid", noised)


def noise_drawn_and_never_added(patch: pytest.MonkeyPatch) -> None:
    def noised(self: door.Door, steps: torch.Tensor, on: Grid) -> torch.Tensor:
        self.noise.discrete_gaussian(steps.shape, NOISE_STEPS)
        return steps.double() * on.step

    patch.setattr(door.Door, "noised_on_grid", noised)


def _scale_times(patch: pytest.MonkeyPatch, factor: float) -> None:
    honest = NoiseSource.discrete_gaussian

    def wrong(self: NoiseSource, shape: Any, scale: int, device: Any = "cpu") -> torch.Tensor:
        return honest(self, shape, round(factor * scale), device)

    patch.setattr(NoiseSource, "discrete_gaussian", wrong)


def a_twentieth_less_noise(patch: pytest.MonkeyPatch) -> None:
    _scale_times(patch, 0.95)


def a_twentieth_more_noise(patch: pytest.MonkeyPatch) -> None:
    _scale_times(patch, 1.05)


def a_step_for_one_sigma_less(patch: pytest.MonkeyPatch) -> None:
    """The sensitivity in steps forgets the multiplier, and the noise is too small."""
    patch.setattr(Grid, "of", staticmethod(lambda clip, _: Grid(clip, NOISE_STEPS)))


def counts_scaled_to_fit(patch: pytest.MonkeyPatch) -> None:
    """Every vector is shortened by a hair before it is rounded; counts drift."""
    honest = grid.to_grid
    _to_grid_with(patch, lambda rows, on: honest(rows * 0.999, on)[0])


def places_taken_on_trust(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(private_records, "check_places", lambda *_: None)


def charged_as_a_gaussian(patch: pytest.MonkeyPatch) -> None:
    for kind in (NoisySum, NoisyHistogram):
        patch.setattr(kind, "events", lambda self, uses: (Gaussian(self.sigma, uses),))
