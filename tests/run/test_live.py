"""The bar of private steps: what they have cost, and how fast they go; nothing before a commit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.privacy.rig import plan
from understudy.privacy.accounting.accountants import price
from understudy.privacy.plan.mechanisms import DPSGD, NoisySum
from understudy.progress import ProgressLines
from understudy.run import live
from understudy.run.live import LiveSpending, cost_so_far

STEPS = DPSGD("steps", steps=100, rate=0.1, clip=1.0, sigma=2.0, multiplicity=4)
SUM = NoisySum("sum", clip=1.0, sigma=5.0)
PLAN = plan(SUM, STEPS)


class Watching:
    """Progress that keeps what a bar was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.done = 0

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Watching]:
        del description, total
        yield self

    def advance(self, steps: int = 1) -> None:
        self.done += steps

    def note(self, text: str) -> None:
        self.notes.append(text)

    def say(self, line: str) -> None:
        self.notes.append(line)


def test_it_says_what_was_spent_and_how_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.time, "monotonic", lambda: 0.0)
    shown = Watching()
    with LiveSpending(shown, PLAN, {"train": 1000}).steps_of("steps", "training", 100) as bar:
        bar.advance(0)
        bar.advance(50)
    assert shown.done == 50
    spent = price([*SUM.events(1), *STEPS.events(50)], PLAN.delta).epsilon
    assert shown.notes[-1].startswith(f"epsilon {spent:.2f} of ")
    assert re.search(r", [\d,]+ passes/s$", shown.notes[-1])


def test_a_log_says_what_the_steps_of_its_line_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what those before them did: an owner would think that less was spent."""
    clock, lines = [0.0], list[str]()
    monkeypatch.setattr(live.time, "monotonic", lambda: clock[0])
    shown = LiveSpending(ProgressLines(lines.append, 1.0), PLAN, {"train": 1000})
    with shown.steps_of("steps", "training", 100) as bar:
        for done in (0, 50, 50):
            clock[0] += 10.0
            bar.advance(done)
    spent = [price([*SUM.events(1), *STEPS.events(n)], PLAN.delta).epsilon for n in (50, 100)]
    assert f"training 50/100 (5.0/s, 0:00:10 left, epsilon {spent[0]:.2f} of " in lines[1]
    assert f"training 100/100 (5.0/s, epsilon {spent[1]:.2f} of " in lines[2]


def test_a_cost_that_is_not_that_of_all_steps_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: clock[0])

    def slow(_: object, __: object, uses: int) -> float:
        clock[0] += 2.0
        return uses / 100

    monkeypatch.setattr(live, "cost_so_far", slow)
    shown = Watching()
    with LiveSpending(shown, PLAN, {"train": 1000}).steps_of("steps", "training", 100) as bar:
        for steps, seconds in ((0, 0), (10, 1), (20, 60), (30, 1), (40, 1)):
            clock[0] += seconds
            bar.advance(steps)
    costs = [re.match(r"epsilon ([\d.]+) of [\d.]+( at step \d+)?", note) for note in shown.notes]
    assert [(c[1], c[2]) for c in costs if c] == [
        *(("0.00", None), ("0.00", " at step 0"), ("0.30", None)),
        *(("0.30", " at step 30"), ("1.00", None)),
    ]


def test_other_bars_are_left_alone() -> None:
    shown = Watching()
    for total in (7, 100, None):
        with LiveSpending(shown, PLAN, {"train": 1000}).task("reading", total) as bar:
            bar.advance(3)
    assert (shown.done, shown.notes) == (9, []), "a cost of steps that nobody took"


def test_passes_are_those_expected_by_declared_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [10.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: clock[0])
    shown = Watching()
    progress = LiveSpending(shown, PLAN, {"train": 1000})
    with progress.steps_of("steps", "training", 100) as bar:
        bar.advance(20)  # by earlier processes
        with progress.task("compiling"):
            clock[0] = 50.0
            with progress.task("some of it"):
                clock[0] = 110.0
        clock[0] = 112.0
        bar.advance(10)
        # 10 steps of 100 units with 4 draws each, in 2 seconds beside the compiler's 100.
        assert shown.notes[-1].endswith("2,000 passes/s")
        with progress.task("a bar around steps"):
            clock[0] = 113.0
            bar.advance(20)
        assert shown.notes[-1].endswith("4,000 passes/s")
        clock[0] = 115.0
        bar.advance(10)
    assert shown.notes[-1].endswith("3,200 passes/s")
    with progress.task("drawing"):
        clock[0] = 200.0


def test_nothing_done_costs_nothing_and_a_bare_machine_cannot_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = plan(STEPS)
    assert cost_so_far(alone, STEPS, 0) == 0.0

    def missing(*_: object) -> None:
        raise ImportError

    monkeypatch.setattr("understudy.privacy.accounting.accountants.price", missing)
    assert cost_so_far(alone, STEPS, 5) is None
