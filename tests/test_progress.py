"""Progress in a log: now and then a line, and nothing for what is soon over."""

from __future__ import annotations

import pytest

from understudy import progress
from understudy.progress import ProgressLines


def test_lines_tell_the_rate_of_late_and_how_long_the_rest_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    told: list[str] = []
    shown = ProgressLines(told.append, every=10.0)
    with shown.task("training", 90) as bar:
        with shown.task("compiling"):
            clock[0] = 100.0
        with shown.task("checking"):
            clock[0] = 101.0
        bar.advance(10)
        bar.advance(1)
        clock[0] = 111.0
        bar.note("epsilon 1.00 of 2.00")
        bar.advance(50)
    shown.say("done")
    assert told == [
        "compiling: 100 s",
        "training 10/90 (0.1/s)",
        "training 61/90 (5.1/s, 0:00:06 left, epsilon 1.00 of 2.00)",
        "done",
    ]
