"""Running what the pages show, as a reader would: block after block, in one folder."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.docs.pages import Block
from understudy.cli.main import run

_SKIPPED = "…"


@dataclass(frozen=True)
class Shown:
    """A command line as printed in a page, with the output printed below it."""

    command: str
    output: str


def shown_commands(text: str) -> list[Shown]:
    """The `$ command` lines of a console block, each with the lines that follow it."""
    pieces: list[tuple[list[str], list[str]]] = []
    continued = False
    for line in text.splitlines():
        if line.startswith("$ "):
            pieces.append(([line.removeprefix("$ ")], []))
        elif not pieces:
            raise AssertionError(f"a console block begins with '$ ', not {line!r}")
        elif continued:
            pieces[-1][0].append(line)
        else:
            pieces[-1][1].append(line)
        continued = line.endswith("\\") and not pieces[-1][1]
    return [Shown(_joined(command), "\n".join(output).strip()) for command, output in pieces]


class Reader:
    """Somebody who follows one page; Python names live on from block to block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, Any] = {"__name__": "__page__"}
        self._printed = ""

    def follow(self, block: Block) -> None:
        if block.mark == "not run":
            return
        if block.mark == "file":
            (self._folder / block.words).write_text(block.text + "\n", encoding="utf-8")
        elif block.language == "python":
            self._printed = self._python(block)
        elif block.language == "text":
            self._compare(block.text, self._printed, block)
        elif block.language == "console":
            for shown in shown_commands(block.text):
                self._command(shown, block)

    def _python(self, block: Block) -> str:
        padded = "\n" * (block.line - 1) + block.text
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(padded, str(block.page), "exec"), self._names)
        return printed.getvalue()

    def _command(self, shown: Shown, block: Block) -> None:
        program, *arguments = shlex.split(shown.command)
        if program == "python" and arguments[:2] == ["-m", "understudy"]:
            program, arguments = "understudy", arguments[2:]
        assert program == "understudy", f"{block.place}: cannot run {shown.command!r} here"
        printed, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            code = run(arguments)
        complaint = f"{block.place}: {shown.command!r} gave {code}: {said.getvalue()}"
        assert code == 0, complaint + printed.getvalue()
        if shown.output:
            self._compare(shown.output, printed.getvalue(), block)

    def _compare(self, wanted: str, got: str, block: Block) -> None:
        assert same_output(wanted, got), f"{block.place} shows\n{wanted}\nbut it is\n{got}"


def same_output(wanted: str, got: str) -> bool:
    """Whether `got` is what a page shows; `…` in the page stands for anything at all."""
    parts = [re.escape(_plain(part)) for part in wanted.split(_SKIPPED)]
    return re.fullmatch(".*".join(parts), _plain(got), re.DOTALL) is not None


def _joined(lines: list[str]) -> str:
    return " ".join(line.removesuffix("\\").strip() for line in lines)


def _plain(text: str) -> str:
    """One space between words: columns are as wide as the figures in them."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
