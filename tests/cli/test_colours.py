"""Colour on a terminal, and nowhere else."""

from __future__ import annotations

import io

import pytest

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace
from understudy.cli.bars import Bars
from understudy.cli.colours import BAD, in_colour, marked
from understudy.progress import rate_in_words

ESCAPE = "\x1b["


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_an_error_stands_out_on_a_terminal_alone(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_screen = workplace.run("verify", "nothing", screen=Terminal())
    assert on_screen.err.startswith(ESCAPE)
    assert "nothing" in on_screen.err
    workplace.run("verify", "nothing").refused("nothing")
    monkeypatch.setenv("NO_COLOR", "1")
    assert ESCAPE not in workplace.run("verify", "nothing", screen=Terminal()).err
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert in_colour("x", BAD, Terminal()) == "x"


def test_only_the_first_word_is_marked() -> None:
    line = marked("warning: the word warning: stands twice.", Terminal())
    assert line.endswith(" the word warning: stands twice.")
    assert line.count(ESCAPE) == marked("warning: once.", Terminal()).count(ESCAPE) > 0
    assert marked("nothing to warn of", Terminal()) == "nothing to warn of"


def test_output_that_is_piped_has_no_colour(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    words = ("--epsilon", "1", "--delta", "0.5", "-o", "out")
    said = workplace.run("synthesize", "photos", *SMALL_MERF, *words).succeeded()
    assert "warning: delta" in said.err
    assert ESCAPE not in said.out + said.err
    assert ESCAPE not in workplace.run("verify", "out").succeeded().out


def test_a_long_step_has_a_rate_from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """As metrics of an evaluation are: a few, each of which takes its time."""
    monkeypatch.setenv("COLUMNS", "160")
    told: list[str] = []
    with Bars().task("evaluate", 8) as task:
        live = task._live  # type: ignore[attr-defined]
        number = live.task_ids[0]
        live.tasks[0].start_time -= 100.0
        task.advance()
        told.append(live.tasks[live.task_ids.index(number)].fields["rate"])
    assert told == [rate_in_words(0.01)] == ["100 s each"]
