"""How long the loops of a fit take: on a machine at hand by a trial, on another by its rates.

Times follow from settings and declared facts alone, never from records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from understudy.methods.contract import Loop


@dataclass(frozen=True)
class Pace:
    """Seconds before the first loop and around them, and of one round of each loop, by its bar.

    tried: whether a trial says so, rather than rates.
    """

    start: float
    rounds: Mapping[str, float]
    tried: bool = False

    def seconds(self, loops: Sequence[Loop]) -> float:
        return self.start + sum(loop.rounds * self.rounds[loop.bar] for loop in loops)


@dataclass(frozen=True)
class Rate:
    """One kind of loop: seconds of a round whatever is in it, of a pass, and multiplications a
    second."""

    round: float
    each: float
    speed: float

    def seconds(self, loop: Loop) -> float:
        """Of one round."""
        return self.round + loop.passes * (self.each + loop.multiplications / self.speed)


@dataclass(frozen=True)
class Machine:
    """A kind of machine with its rates.

    name: how people call it. measured: the evidence of its rates, and what it has none of.
    probe: seconds that the work of `understudy.run.choosing.probe` takes on it; another machine of
        its kind is as much slower as its own probe is longer.
    """

    kind: str
    name: str
    measured: str
    start: float
    probe: float
    rates: Mapping[str, Rate]

    def pace(self, loops: Sequence[Loop], slower: float = 1.0) -> Pace:
        rounds = {loop.bar: slower * self.rates[loop.kind].seconds(loop) for loop in loops}
        return Pace(slower * self.start, rounds)
