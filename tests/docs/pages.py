"""The written pages of the repository, and the fenced blocks in them.

A block may have a mark on the line before it, an HTML comment that no reader sees:
`<!-- not run: why -->` leaves it to be read only, `<!-- file: name -->` makes it a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^( *)```(\w*) *$")
_MARK = re.compile(r"^ *<!-- (not run|file): (.+?) -->$")


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its first line of text."""

    page: Path
    line: int
    language: str
    text: str
    mark: str | None = None
    words: str = ""

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"


def all_pages() -> list[Path]:
    """Every page that a person may read on the repository's site."""
    return [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is None:
            number += 1
            continue
        end = _end_of_block(lines, number, page)
        mark = _MARK.match(lines[number - 1]) if number else None
        body = [line.removeprefix(fence[1]) for line in lines[number + 1 : end]]
        kind, words = (mark[1], mark[2]) if mark else (None, "")
        found.append(Block(page, number + 2, fence[2], "\n".join(body), kind, words))
        number = end + 1
    return found


def prose(page: Path) -> str:
    """The text of a page without its fenced blocks and its comments."""
    kept: list[str] = []
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside and not _MARK.match(line):
            kept.append(line)
    return "\n".join(kept)


def code_spans(page: Path) -> list[str]:
    """What stands between backticks in the running text."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def _end_of_block(lines: list[str], start: int, page: Path) -> int:
    for number in range(start + 1, len(lines)):
        if _FENCE.match(lines[number]):
            return number
    raise AssertionError(f"{name_of(page)}:{start + 1}: the block has no end")
