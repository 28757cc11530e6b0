"""Bars on a terminal, lines in a log, and warnings in both."""

from __future__ import annotations

import io
import re
import time
from contextlib import redirect_stderr

import pytest

from tests import drawing
from tests.workplace import SMALL_GAN, Workplace
from understudy import progress
from understudy.cli.bars import Bars, Plain, bars


def test_no_bars_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (bars(), bars(as_json=True)):
        assert not isinstance(shown, Bars)
        with shown.task("training", 10) as task:
            task.advance(3)
            task.note("hello")
        shown.say("warning: delta is large.")
        said = capsys.readouterr()
        assert said.err == "warning: delta is large.\n"
        assert said.out == ""


def test_a_log_gets_a_line_every_half_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with bars().task("training", 10) as task, bars(as_json=True).task("training", 10) as silent:
        for second in (29.0, 31.0):
            clock[0] = second
            task.advance()
            silent.advance()
    said = capsys.readouterr()
    assert (said.err, said.out) == ("training 2/10 (0.1/s)\n", "")


def test_the_time_left_outlives_a_long_block() -> None:
    """Blocks take up to thirty seconds; an estimate that forgets sooner is never there."""
    live = Bars()._start()
    assert live.speed_estimate_period > 4 * 30
    live.stop()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "160")


def test_json_is_never_mixed_with_bars() -> None:
    with redirect_stderr(Terminal()):
        assert isinstance(bars(as_json=True), Plain)
        assert isinstance(bars(), Bars)


def test_a_bar_shows_what_where_and_how_fast() -> None:
    with redirect_stderr(Terminal()) as screen:
        shown = bars()
        with shown.task("reading private records", 100) as outer:
            outer.advance(40)
            with shown.task("training", 10) as inner:
                inner.advance(1)
                inner.advance(4)
                inner.note("block 2")
                shown.say("a line between")
                time.sleep(0.25)  # bars are redrawn ten times a second
    said = screen.getvalue()
    for words in ("reading private records", "40/100", "training", "5/10", "block 2", "/s"):
        assert words in said, words
    assert "a line between" in said


def test_in_80_columns_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with redirect_stderr(Terminal()) as screen, bars().task("training the denoiser", 1350) as task:
        task.advance(100)
        time.sleep(0.05)
        task.advance(1000)
        task.note("epsilon 10.18 of 10.98, 34,829 passes/s")
        time.sleep(0.25)
    said = screen.getvalue()
    for words in ("training the denoiser", "1100/1350", "epsilon 10.18 of 10.98, 34,829 passes/s"):
        assert words in said, words
    assert "/s" in said
    assert re.search(r"\d:\d\d:\d\d", said), "no time left"
    assert "…" not in said


def test_bars_can_be_opened_again_and_survive_an_error() -> None:
    with redirect_stderr(Terminal()) as screen:
        shown = bars()
        with pytest.raises(ValueError, match="oops"), shown.task("first", 2):
            raise ValueError("oops")
        with shown.task("second", None) as task:
            task.advance()
        shown.say("[not markup] 100%")
    assert "[not markup] 100%" in screen.getvalue()


def test_whole_commands_on_a_terminal(workplace: Workplace) -> None:
    """Bars on standard error, the answer on standard output, and nothing in the other."""
    drawing.class_folder(workplace / "photos")
    words = ("synthesize", "photos", *SMALL_GAN, "--set", "steps=3", "--epsilon", "1")
    made = workplace.run(*words, "-o", "out", screen=Terminal()).succeeded()
    assert "training the discriminator" in made.err
    assert made.out.startswith("Differentially private")
    measured = workplace.run(
        *("evaluate", "--run", "runs/out", "--protocol", workplace.quick_protocol()),
        screen=Terminal(),
    )
    assert "gen2real accuracy" in measured.succeeded().out
    assert "gen2real" in measured.err
