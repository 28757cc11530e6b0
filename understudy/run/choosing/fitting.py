"""Settings that fit into a time: the documented rule of `--time`.

A method's rule (see `understudy.methods.rules`) has settings from the cheapest rung to the dearest.
The dearest one is taken whose forecast stays within nine tenths of the time; then the loop that the
rule names is made longer while there is time left. Where not even the cheapest fits, that loop is
made shorter, down to a quarter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from understudy.errors import UserError
from understudy.methods.contract import Facts, Forecasting, Loop, Method
from understudy.methods.pace import Machine, Pace
from understudy.methods.rules import Rule, Stretch

SPENT = 0.9
"""Of the time: what is left is for reading, writing and mistakes."""

_LEAST = 0.25
_MOST_TRIALS = 3


@dataclass(frozen=True)
class Ladder:
    """The configs that a rule allows, from the cheapest, and the loops of each."""

    method: Method
    rule: Rule
    facts: Facts
    samples: int
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rule.rungs)

    def config(self, rung: int) -> Any:
        return self.rule.config(self.method, self.facts, rung, self.changes)

    def loops(self, config: Any) -> Sequence[Loop]:
        assert isinstance(self.method, Forecasting)
        return self.method.loops(config, self.facts, self.samples)


class Clock(Protocol):
    """Where times come from."""

    def guess(self, loops: Sequence[Loop]) -> Pace:
        """At once, roughly."""
        ...

    def pace(self, config: Any, loops: Sequence[Loop]) -> Pace:
        """As well as can be known; it may take some seconds."""
        ...


@dataclass(frozen=True)
class ByRates:
    """By a machine's rates, or by those of one so many times as slow: the same at every call."""

    machine: Machine
    slower: float = 1.0

    def guess(self, loops: Sequence[Loop]) -> Pace:
        return self.machine.pace(loops, self.slower)

    def pace(self, config: Any, loops: Sequence[Loop]) -> Pace:
        del config
        return self.guess(loops)


@dataclass
class ByTrial:
    """By trials on the machine at hand; what one says of a method corrects later guesses.

    trial: of a config, where a guess says that it does not take long itself; None where it cannot
    be tried. Then the guess stands.
    """

    machine: Machine
    slower: float
    trial: Callable[[Any, Pace], Pace | None]

    def guess(self, loops: Sequence[Loop]) -> Pace:
        return self.machine.pace(loops, self.slower)

    def pace(self, config: Any, loops: Sequence[Loop]) -> Pace:
        guess = self.guess(loops)
        found = self.trial(config, guess)
        if found is None:
            return guess
        self.slower *= found.seconds(loops) / max(1e-9, guess.seconds(loops))
        return found


@dataclass(frozen=True)
class Fit:
    """What fits: a config, the seconds that it is forecast to take, and whether by a trial."""

    config: Any
    seconds: float
    tried: bool = False


def fit_into(seconds: float, ladder: Ladder, clock: Clock) -> Fit:
    """The dearest config that fits; the nearest that can be had where none does."""
    aim = SPENT * seconds
    rung = _dearest(aim, ladder, clock)
    tried: dict[int, Pace] = {}
    for _ in range(_MOST_TRIALS):
        config = ladder.config(rung)
        loops = ladder.loops(config)
        tried[rung] = clock.pace(config, loops)
        fits, now = tried[rung].seconds(loops) <= aim, _dearest(aim, ladder, clock)
        better = max(rung, now) if fits else max(0, min(rung - 1, now))
        if better in tried:
            break
        rung = better
    within = [r for r in tried if _seconds(ladder, r, tried[r]) <= aim]
    rung = max(within) if within else min(tried)
    return _stretched(aim, ladder, ladder.config(rung), tried[rung])


def _seconds(ladder: Ladder, rung: int, pace: Pace) -> float:
    return pace.seconds(ladder.loops(ladder.config(rung)))


def _dearest(aim: float, ladder: Ladder, clock: Clock) -> int:
    """By guesses, the highest rung that fits; the lowest if none does."""
    for rung in reversed(range(len(ladder))):
        loops = ladder.loops(ladder.config(rung))
        if clock.guess(loops).seconds(loops) <= aim:
            return rung
    return 0


def _stretched(aim: float, ladder: Ladder, config: Any, pace: Pace) -> Fit:
    """The same config with as many rounds of one loop as there is time for."""
    stretch, loops = ladder.rule.stretch, ladder.loops(config)
    if stretch is not None and stretch.setting not in ladder.changes:
        rounds = _rounds(stretch, aim, loops, pace)
        config = replace(config, **{stretch.setting: rounds})
    return Fit(config, pace.seconds(ladder.loops(config)), pace.tried)


def _rounds(stretch: Stretch, aim: float, loops: Sequence[Loop], pace: Pace) -> int:
    loop = next((loop for loop in loops if loop.setting == stretch.setting), None)
    if loop is None:
        raise UserError(f"a rule stretches {stretch.setting!r}, which counts no loop's rounds.")
    left = aim - pace.seconds(loops)
    wanted = loop.rounds + left / max(1e-9, pace.rounds[loop.bar])
    low, high = math.ceil(_LEAST * loop.rounds), math.floor(stretch.most * loop.rounds)
    return int(min(max(wanted, low), high))
