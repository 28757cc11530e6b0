"""docs/writing-a-method.md, whose examples are the toys that the contract tests run.

`python -m tests.docs.toys_page` writes them into the page.
"""

from __future__ import annotations

import re

from tests.docs.pages import REPOSITORY

PAGE = REPOSITORY / "docs" / "writing-a-method.md"
TOYS = REPOSITORY / "tests" / "contract" / "toys"

_PLACE = re.compile(
    r"<!-- toy: (\w+) -->\n(?:\n<!-- file: \w+\.py -->\n```python\n.*?\n```\n)?", re.DOTALL
)


def filled(page: str) -> str:
    """The page with each toy, as it stands now, after its mark."""
    return _PLACE.sub(lambda mark: _block(mark[1]), page)


def named(page: str) -> list[str]:
    """The toys that the page shows, in order."""
    return [mark[1] for mark in _PLACE.finditer(page)]


def _block(name: str) -> str:
    text = (TOYS / f"{name}.py").read_text(encoding="utf-8").rstrip()
    return f"<!-- toy: {name} -->\n\n<!-- file: {name}.py -->\n```python\n{text}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
