"""Settings that fit into a time: the dearest rung, stretched, by clocks that are not real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.methods.bench import facts_of, stripes
from understudy.errors import UserError
from understudy.methods.config import setting
from understudy.methods.contract import Facts, Loop, LoopKind
from understudy.methods.info import MethodInfo
from understudy.methods.machines import CPU, machine
from understudy.methods.pace import Pace
from understudy.methods.rules import Rule, Stretch
from understudy.run.choosing.fitting import SPENT, ByRates, ByTrial, Fit, Ladder, fit_into

FACTS = facts_of(stripes(40))
SAMPLES = 10


@dataclass(frozen=True)
class Config:
    warm: int = setting(10, "rounds before", low=1)
    steps: int = setting(100, "rounds that count", low=1)
    width: int = setting(1, "work in a round", low=1)


class Walk:
    """A method of two loops and a drawing, which is never fitted."""

    info = MethodInfo(name="walk", summary="", paper="", family="test")
    Config = Config

    def loops(self, config: Config, facts: Facts, samples: int) -> Sequence[Loop]:
        del facts
        return (
            Loop("warming", "warm", config.warm, LoopKind.PLAIN, 1, config.width),
            Loop("walking", "steps", config.steps, LoopKind.PRIVATE, 1, config.width),
            Loop("drawing", None, 1, LoopKind.DRAWING, samples, 1),
        )

    def gigabytes(self, config: Config, facts: Facts) -> float:
        del config, facts
        return 1.0


WIDTHS = (1, 4, 16)
RULE = Rule(
    "a test", rungs=tuple({"width": width} for width in WIDTHS), stretch=Stretch("steps", 2.0)
)


def ladder(changes: Mapping[str, Any] | None = None, **rule: Any) -> Ladder:
    method: Any = Walk()
    return Ladder(method, replace(RULE, **rule), FACTS, SAMPLES, changes or {})


def pace_of(config: Config, slower: float = 1.0) -> Pace:
    """A tenth of a second for each round and unit of width, five for the rest."""
    each = 0.1 * config.width * slower
    return Pace(5.0 * slower, {"warming": 0.0, "walking": each, "drawing": 0.0})


@dataclass
class Watch:
    """A clock that guesses wrong by a factor, and learns from what it tries, as the real one."""

    off_by: float = 1.0
    really: Mapping[int, float] = field(default_factory=dict)
    """How many times as slow widths really are; 1 where nothing is said."""

    tried: list[int] = field(default_factory=list)

    def guess(self, loops: Sequence[Loop]) -> Pace:
        return pace_of(Config(width=int(loops[0].multiplications)), self.off_by)

    def pace(self, config: Config, loops: Sequence[Loop]) -> Pace:
        del loops
        self.tried.append(config.width)
        slower = self.really.get(config.width, 1.0)
        self.off_by = slower
        return pace_of(config, slower)


def fitted(seconds: float, clock: Watch, own: Ladder | None = None) -> tuple[Config, Fit]:
    fit = fit_into(seconds, own or ladder(), clock)
    assert isinstance(fit.config, Config)
    return fit.config, fit


@pytest.mark.parametrize(
    ("seconds", "width"),
    [
        (16, 1),
        (49, 1),  # 45 s of width 4, of 44.1
        (51, 4),
        (183, 4),  # 165 s of width 16, of 164.7
        (184, 16),
        (10_000, 16),
    ],
)
def test_the_dearest_rung_that_fits_is_taken(seconds: float, width: int) -> None:
    clock = Watch()
    config, fit = fitted(seconds, clock)
    assert config.width == width
    assert fit.seconds <= SPENT * seconds
    assert clock.tried == [width], "a right guess is tried once"


def test_what_time_is_left_makes_the_loop_longer() -> None:
    config, fit = fitted(100, Watch())
    assert config == Config(width=4, steps=200), "as long as the rule allows"
    assert fit.seconds == 5 + 200 * 0.4
    config, fit = fitted(80, Watch())
    assert config.steps == int((SPENT * 80 - 5) / 0.4) == 167
    assert SPENT * 80 - 0.4 < fit.seconds <= SPENT * 80
    assert config.warm == 10, "other loops stay as they are"


def test_where_not_even_the_cheapest_fits_it_is_made_shorter_down_to_a_quarter() -> None:
    config, fit = fitted(12, Watch())
    assert config == Config(steps=58)
    assert fit.seconds <= SPENT * 12
    for seconds in (8, 1):
        config, fit = fitted(seconds, Watch())
        assert config == Config(steps=25)
        assert fit.seconds == 7.5, "and says what it takes nevertheless"


def test_a_length_set_by_hand_stays() -> None:
    config, _ = fitted(1000, Watch(), ladder({"steps": "7"}))
    assert config == Config(steps=7, width=16)


def test_a_rule_without_stretch_keeps_its_lengths() -> None:
    config, _ = fitted(100, Watch(), ladder(stretch=None))
    assert config == Config(steps=100, width=4)


def test_a_guess_that_was_too_high_is_corrected_by_a_trial() -> None:
    clock = Watch(off_by=3.0)
    config, _ = fitted(184, clock)
    assert clock.tried == [4, 16], "what the first said of the method lets the dearer one be tried"
    assert config.width == 16


def test_a_guess_that_was_too_low_steps_down() -> None:
    clock = Watch(off_by=0.1, really={16: 3.0})
    config, fit = fitted(184, clock)
    assert clock.tried == [16, 4]
    assert config.width == 4
    assert fit.seconds <= SPENT * 184


MANY = tuple({"width": width} for width in (1, 2, 4, 8, 16, 32))


def test_a_guess_that_was_far_too_low_goes_down_at_once() -> None:
    """One rung at a time would use up the trials long before anything fits."""
    clock = Watch(off_by=1e-6)
    config, fit = fitted(20, clock, ladder(rungs=MANY))
    assert clock.tried == [32, 1]
    assert config.width == 1
    assert fit.seconds <= SPENT * 20


def test_there_are_at_most_three_trials() -> None:
    """All widths really take as long, so that each trial makes the next one look cheap."""
    alike = {rung["width"]: 48.0 / rung["width"] for rung in MANY}
    clock = Watch(off_by=1e-6, really=alike)
    config, fit = fitted(300, clock, ladder(rungs=MANY))
    assert clock.tried == [32, 16, 8]
    assert config.width == 8, "the cheapest that was tried"
    assert config.steps < 100, "and shorter"
    assert fit.seconds <= SPENT * 300


def test_a_rung_is_not_tried_twice() -> None:
    """The guesses say 16 again after it was found to be too slow."""
    clock = Watch(really={16: 3.0, 4: 0.5})
    config, _ = fitted(184, clock)
    assert clock.tried == [16, 4]
    assert config.width == 4


def test_rates_answer_the_same_at_every_call() -> None:
    own, clock = ladder(), ByRates(machine(CPU), slower=2.0)
    loops = own.loops(own.config(0))
    assert clock.pace(own.config(0), loops) == clock.guess(loops)
    assert clock.guess(loops) == machine(CPU).pace(loops, 2.0)
    assert fit_into(60, own, clock) == fit_into(60, own, clock)


def test_a_trial_corrects_later_guesses_by_what_it_found() -> None:
    own = ladder()
    config = own.config(1)
    loops = own.loops(config)
    found = Pace(12.0, dict.fromkeys(_bars(loops), 0.0))
    clock = ByTrial(machine(CPU), 1.0, lambda *_: found)
    before = clock.guess(loops).seconds(loops)
    assert clock.pace(config, loops).seconds(loops) == 12.0
    assert clock.guess(loops).seconds(loops) == pytest.approx(12.0)
    dearer = own.loops(own.config(2))
    alike = machine(CPU).pace(dearer, slower=12.0 / before).seconds(dearer)
    assert clock.guess(dearer).seconds(dearer) == pytest.approx(alike)


def test_what_cannot_be_tried_is_taken_by_its_guess() -> None:
    own = ladder()
    clock = ByTrial(machine(CPU), 1.0, lambda *_: None)
    assert fit_into(60, own, clock) == fit_into(60, own, ByRates(machine(CPU)))


def test_a_rule_that_stretches_what_is_no_loop_is_named() -> None:
    with pytest.raises(UserError, match="a rule stretches 'width', which counts no loop"):
        fitted(100, Watch(), ladder(stretch=Stretch("width", 2.0)))


def _bars(loops: Sequence[Loop]) -> list[str]:
    return [loop.bar for loop in loops]
