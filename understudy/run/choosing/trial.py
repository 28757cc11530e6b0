"""A trial: a few rounds of a fit on random records, timed on the machine at hand.

Guarantee: a trial meets declared facts only. Its records are drawn at random, its door leads to a
folder that is thrown away, and what it makes is thrown away with it. It needs torch, numpy and
safetensors alone.
"""

from __future__ import annotations

import itertools
import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.data.weights_file import WeightsFile
from understudy.errors import RunFailed, UserError
from understudy.methods.contract import (
    Facts,
    Fitted,
    Forecasting,
    Loop,
    Method,
    Movable,
    PublicInputs,
    Sampler,
)
from understudy.methods.pace import Pace
from understudy.privacy.door.door import Door
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.exact_or_float import spend_with
from understudy.privacy.plan.mechanisms import Mechanism
from understudy.privacy.plan.plan import Budget, Plan
from understudy.progress import Progress, Silent, Task
from understudy.run.context import RunContext

_MOST_UNITS = 20_000
"""Random units; a larger run is tried with so many, at a rate that draws as many a step, and with
more only where a step draws more than these."""

_PUBLIC_RECORDS = 2_000
_ROUNDS = {"cpu": 3, "cuda": 24}
"""Of each loop: on a GPU the first ones record and compile."""

_SHORT, _AGAIN = 1.0, 10
"""Loops whose rounds took less than so many seconds together are tried again, so much longer."""

_DRAWN = {"cpu": 32, "cuda": 2_000}

LONGEST = 30.0
"""Seconds of a trial, by a guess; settings of which a few rounds take longer are not tried."""


@dataclass(frozen=True)
class Tried:
    """What would run: a method with settings, for declared facts, on a device.

    noise: the arithmetic of its noise, "exact" or "float".
    """

    method: Method
    config: Any
    facts: Facts
    noise: str
    device: torch.device
    samples: int
    weights: Mapping[str, WeightsFile] = field(default_factory=dict)

    @property
    def loops(self) -> Sequence[Loop]:
        assert isinstance(self.method, Forecasting)
        return self.method.loops(self.config, self.facts, self.samples)


def quick_trial(tried: Tried, guess: Pace, progress: Progress | None = None) -> Pace | None:
    """A trial that takes at most about half a minute; None where none would."""
    few = _ROUNDS[tried.device.type]
    rounds = ((loop, min(few, loop.rounds)) for loop in tried.loops if loop.setting)
    if guess.start + sum(many * guess.rounds[loop.bar] for loop, many in rounds) > LONGEST:
        return None
    return trial(tried, progress)


def trial(tried: Tried, progress: Progress | None = None) -> Pace | None:
    """The pace of a fit here, by a few rounds of each of its loops.

    Random records stand for private ones, and for public ones too. None where the method's
    settings allow no fit of so few rounds.
    """
    shown, few = progress or Silent(), _ROUNDS[tried.device.type]
    rounds = {loop.setting: min(few, loop.rounds) for loop in tried.loops if loop.setting}
    try:
        replace(tried.config, **rounds)
    except UserError:
        return None
    with shown.task("trying settings on random records"):
        found = _timed(tried, rounds)
        again = {
            loop.setting: min(few * _AGAIN, loop.rounds)
            for loop in tried.loops
            if loop.setting and loop.rounds > few and found.of_loop(loop) < _SHORT / few
        }
        if again:
            found = _timed(tried, {**rounds, **again})
    return found.pace(tried.loops)


@dataclass
class _Times:
    """When each round of each bar ended, with the beginning of the bar as the first entry.

    drawing: seconds that the drawing of all records would take. share: of the declared units,
        how many were tried.
    """

    bars: dict[str, list[float]] = field(default_factory=dict)
    whole: float = 0.0
    drawing: float = 0.0
    share: float = 1.0

    def of_loop(self, loop: Loop) -> float:
        """The usual seconds of a round; of the later half, since the first ones prepare."""
        ends = self.bars.get(loop.bar, [])
        each = [b - a for a, b in itertools.pairwise(ends)]
        return statistics.mean(each[len(each) // 2 :]) if each else 0.0

    def pace(self, loops: Sequence[Loop]) -> Pace:
        """The start is what the fit took beside rounds at their usual pace, and passes over all
        units are part of it."""
        rounds = {loop.bar: self.of_loop(loop) for loop in loops if loop.setting is not None}
        usual = sum(each * (len(self.bars.get(bar, [0])) - 1) for bar, each in rounds.items())
        for loop in loops:
            if loop.setting is None:
                rounds[loop.bar] = self.drawing / max(1, loop.rounds)
        return Pace(max(0.0, self.whole - usual) / self.share, rounds, tried=True)


class _Watch:
    """Progress that notes when each round ends."""

    def __init__(self, device: torch.device, times: _Times) -> None:
        self._device, self._times = device, times

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        del total
        ends = self._times.bars.setdefault(description, [])
        ends.append(self._now())
        yield _Rounds(ends, self._now)

    def say(self, line: str) -> None:
        del line

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.monotonic()


@dataclass
class _Rounds:
    ends: list[float]
    now: Any

    def advance(self, steps: int = 1) -> None:
        """Several rounds at once count as rounds of equal length."""
        before, after = self.ends[-1], self.now()
        self.ends.extend(before + (after - before) * (i + 1) / steps for i in range(steps))

    def note(self, text: str) -> None:
        del text


def _timed(tried: Tried, rounds: Mapping[str, int]) -> _Times:
    """A fit of so many rounds, by the setting that counts them, and a little drawing."""
    config = replace(tried.config, **rounds)
    facts, mechanisms = _at_hand(tried, config)
    plan = Plan(Budget.empirical(), mechanisms, math.inf, "none: a trial", Plan.new_ident())
    times = _Times(share=sum(facts.counts.values()) / sum(tried.facts.counts.values()))
    watch = _Watch(tried.device, times)
    with tempfile.TemporaryDirectory() as name:
        journal = Journal.create(Path(name), plan, {})
        door = Door(
            journal,
            NoiseSource(),
            device=tried.device,
            progress=watch,
            shard_key=b"trial" * 8,
        )
        parts = {
            part: random_records(count, facts.shape, facts.schema)
            for part, count in facts.counts.items()
        }
        try:
            begun = time.monotonic()
            context = RunContext(door, watch, tried.device, 0)
            handles = door.handles(parts, facts.counts)
            fitted = tried.method.fit(config, handles, plan, _random_public(tried), context)
            door.settle()
            times.whole = watch._now() - begun
        except RunFailed as failed:
            raise UserError(
                f"{tried.method.info.name} failed when its settings were tried on random records, "
                f"so nothing was begun ({str(failed.__cause__)[:200].rstrip('.')})."
            ) from failed
        finally:
            door.abandon()
            journal.release_lock()
        times.drawing = _drawing(fitted, tried, watch)
    return times


def _drawing(fitted: Fitted, tried: Tried, watch: _Watch) -> float:
    """Seconds for all records, by a second draw of a few; the first one prepares."""
    if not isinstance(fitted, Sampler):
        return 0.0
    device = tried.device if isinstance(fitted, Movable) else torch.device("cpu")
    if isinstance(fitted, Movable):
        fitted.work_on(device, Silent())
    some = min(tried.samples, _DRAWN[device.type])
    fitted.sample(some)
    begun = watch._now()
    fitted.sample(some)
    return (watch._now() - begun) * tried.samples / some


def random_records(count: int, shape: tuple[int, ...], schema: Schema) -> Records:
    """Records of this form that say nothing of any others."""
    random = np.random.default_rng(0)
    features = random.integers(0, 256, (count, *shape), dtype=np.uint8)
    codes = {a.name: random.integers(0, len(a.classes), count) for a in schema.attributes}
    return Records(features, codes, schema)


def _at_hand(tried: Tried, config: Any) -> tuple[Facts, tuple[Mechanism, ...]]:
    """The same facts of some units, more of them where a step draws more; and a plan."""
    most = _MOST_UNITS
    while True:
        counts = {part: min(count, most) for part, count in tried.facts.counts.items()}
        fewer = replace(tried.facts, count=sum(counts.values()), counts=counts)
        try:
            return fewer, _planned(tried, config, fewer)
        except UserError:
            if counts == dict(tried.facts.counts):
                raise
            most *= 2


def _planned(tried: Tried, config: Any, facts: Facts) -> tuple[Mechanism, ...]:
    return tuple(spend_with(tried.method.spend(config, facts), tried.noise)(1.0))


def _random_public(tried: Tried) -> PublicInputs:
    facts = tried.facts
    records = {
        entry.name: random_records(_PUBLIC_RECORDS, facts.shape, facts.schema)
        for entry in tried.method.info.public_records
    }
    return PublicInputs(records, tried.weights)
