"""The page on published figures counts what the data files hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from understudy.bench.published import published, sources

PAGE = Path(__file__).parents[2] / "docs" / "published.md"
FLAGS = ("yes", "no", "unclear", "none")


def rows() -> list[str]:
    """One line a source, as the page shows it: figures, flags, figures of each table."""
    lines = []
    for name, source in sources().items():
        figures = published(name)
        flags = Counter(figure.sound for figure in figures)
        tables = Counter(figure.table for figure in figures)
        listed = ", ".join(f"{table}: {tables[table]}" for table in source.tables)
        cells = (f"`{name}`", len(figures), *(flags[flag] for flag in FLAGS), listed)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def shown(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("| `")]


def test_the_page_shows_every_count_and_no_other() -> None:
    assert shown(PAGE.read_text()) == rows(), "\n".join(["docs/published.md should show", *rows()])


def test_a_count_that_is_off_by_one_is_seen() -> None:
    total = len(published("deco-bench"))
    right, wrong = (f"| `deco-bench` | {count} |" for count in (total, total + 1))
    assert shown(PAGE.read_text().replace(right, wrong)) != rows()
