"""Paces and rates: seconds of loops, by hand."""

from __future__ import annotations

import pytest

from understudy.methods.contract import Loop, LoopKind
from understudy.methods.pace import Machine, Pace, Rate

STEPS = Loop("training", "steps", 10, LoopKind.PRIVATE, passes=4, multiplications=100)
DRAWS = Loop("drawing", None, 5, LoopKind.DRAWING, passes=2, multiplications=50)
MACHINE = Machine(
    kind="toy",
    name="a toy",
    measured="nowhere",
    start=3.0,
    probe=0.1,
    rates={
        LoopKind.PRIVATE: Rate(round=0.5, each=0.25, speed=1000),
        LoopKind.DRAWING: Rate(round=0.0, each=0.0, speed=100),
    },
)


def test_a_round_is_its_own_time_and_that_of_its_passes() -> None:
    assert MACHINE.rates[LoopKind.PRIVATE].seconds(STEPS) == pytest.approx(0.5 + 4 * (0.25 + 0.1))
    assert MACHINE.rates[LoopKind.DRAWING].seconds(DRAWS) == pytest.approx(2 * 0.5)


def test_a_run_is_its_start_and_every_round_of_every_loop() -> None:
    pace = Pace(7.0, {"training": 2.0, "drawing": 0.5, "not asked": 100.0})
    assert pace.seconds([STEPS, DRAWS]) == 7.0 + 10 * 2.0 + 5 * 0.5
    assert pace.seconds([]) == 7.0


def test_a_slower_machine_is_as_much_slower_in_everything() -> None:
    loops = [STEPS, DRAWS]
    own, slower = MACHINE.pace(loops), MACHINE.pace(loops, slower=2.5)
    assert own.seconds(loops) == pytest.approx(3.0 + 10 * 1.9 + 5 * 1.0)
    assert slower.start == 2.5 * own.start
    assert slower.seconds(loops) == pytest.approx(2.5 * own.seconds(loops))
