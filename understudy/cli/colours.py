"""Colour where it helps to find a word: only on a terminal, and never against NO_COLOR."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import typer

GOOD, DOUBTFUL, BAD = "green", "yellow", "red"
_MARKS = {"warning:": DOUBTFUL, "error:": BAD}


def in_colour(words: str, colour: str, stream: TextIO | None = None) -> str:
    """The words as this stream should show them; standard output if none is named."""
    target = sys.stdout if stream is None else stream
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not target.isatty():
        return words
    return typer.style(words, fg=colour, bold=True)


def marked(line: str, stream: TextIO | None = None) -> str:
    """A line whose first word, where it is a warning or an error, stands out."""
    first, space, rest = line.partition(" ")
    return f"{in_colour(first, _MARKS[first], stream)}{space}{rest}" if first in _MARKS else line
