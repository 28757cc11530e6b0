"""What the owner sees while private steps go on: epsilon spent, passes a second, time left.

Bars move when a block is committed, so nothing here shows a step that may yet be void. The
epsilon is that of the steps done, for the owner's eyes: the claim is the whole plan's,
whenever a run stops.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from understudy.privacy.plan.mechanisms import Mechanism
from understudy.privacy.plan.mechanisms.stepwise import Stepwise
from understudy.privacy.plan.plan import Plan
from understudy.progress import Progress, Task

_PRICING = 0.05
"""Of a run's time, at most: an accountant takes about a second."""


class LiveSpending:
    """Progress that says, of the private steps of a plan, what they have cost so far.

    A bar between two of its steps, as that of a compiler, takes no time of theirs.
    """

    def __init__(self, progress: Progress, plan: Plan, counts: Mapping[str, int]) -> None:
        self._progress, self._plan, self._counts = progress, plan, counts
        self._bar: _SpendingBar | None = None

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        waiting, self._bar = self._bar, None  # so that a bar inside of this one is not counted too
        began, moves = time.monotonic(), waiting.moves if waiting else 0
        try:
            with self._progress.task(description, total) as bar:
                yield bar
        finally:
            self._bar = waiting
            if waiting and waiting.moves == moves:
                waiting.leave_out(time.monotonic() - began)

    @contextmanager
    def steps_of(self, mechanism: str, description: str, total: int) -> Iterator[Task]:
        planned = self._plan.mechanism(mechanism)
        assert isinstance(planned, Stepwise)
        passes = planned.passes(self._counts[planned.part])
        with self._progress.task(description, total) as bar:
            self._bar = _SpendingBar(bar, self._plan, planned, passes)
            try:
                yield self._bar
            finally:
                self._bar = None

    def say(self, line: str) -> None:
        self._progress.say(line)


class _SpendingBar:
    """A bar of private steps. `passes`: those a step is expected to take, by declared counts."""

    def __init__(self, bar: Task, plan: Plan, mechanism: Stepwise, passes: float | None) -> None:
        self._bar, self._plan, self._mechanism, self._passes = bar, plan, mechanism, passes
        self._done, self._here, self.moves = 0, 0, 0
        self._since = 0.0
        self._priced_at, self._price_again, self._spent = 0, 0.0, ""

    def advance(self, steps: int = 1) -> None:
        self._done += steps
        self.moves += 1
        if self.moves == 1:  # of what earlier processes did
            self._since = time.monotonic()
        else:
            self._here += steps
        self._bar.note(", ".join(filter(None, (self._cost(), self._rate()))))
        self._bar.advance(steps)  # last: a log says the note that it finds then

    def leave_out(self, seconds: float) -> None:
        """Time that passed since the last step, and that no step took."""
        self._since += seconds

    def note(self, text: str) -> None:
        self._bar.note(text)

    def _cost(self) -> str:
        """Of the steps done, or of those that were last priced, and then it says so."""
        began = time.monotonic()
        if began >= self._price_again or self._done == self._mechanism.steps:
            spent = cost_so_far(self._plan, self._mechanism, self._done)
            self._spent = (
                "" if spent is None else f"epsilon {spent:.2f} of {self._plan.epsilon:.2f}"
            )
            now = time.monotonic()
            self._priced_at, self._price_again = self._done, now + (now - began) / _PRICING
        earlier = self._spent and self._priced_at != self._done
        return f"{self._spent} at step {self._priced_at}" if earlier else self._spent

    def _rate(self) -> str:
        if not self._here:
            return ""
        seconds = max(time.monotonic() - self._since, 1e-9)
        if self._passes is None:
            return f"{self._here / seconds:,.1f} steps/s"
        return f"{self._here * self._passes / seconds:,.0f} passes/s"


def cost_so_far(plan: Plan, mechanism: Mechanism, uses: int) -> float | None:
    """What so many uses cost, with every earlier mechanism of the plan; None if not known here.

    A machine that only follows plans has no accountant.
    """
    from understudy.privacy.accounting.accountants import price

    before = plan.mechanisms[: plan.mechanisms.index(mechanism)]
    events = [e for m in before for e in m.events(m.uses)] + list(mechanism.events(uses))
    if not events:
        return 0.0
    try:
        return price(events, plan.delta).epsilon
    except ImportError:
        return None
