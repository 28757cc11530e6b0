"""What has been spent on a dataset, by the owner's account book."""

from __future__ import annotations

from pathlib import Path

from understudy.errors import UserError
from understudy.privacy.ledger.account_book import Book, book_name
from understudy.privacy.ledger.account_totals import Totals, total_of


def spent(source: str, *, delta: float = 1e-5, home: Path | None = None) -> Totals:
    """Two totals at one delta: of the releases, and of all runs (audits included).

    source: what the runs were given as data, or the owner's own name for it. Where both a
        name and a folder of that name have books, the totals are over both.
    """
    if not 0 < delta < 1:
        raise UserError(f"--delta must lie between 0 and 1, not {delta!r}.")
    runs = [run for book in _books(source, home) for run in book.runs()]
    return total_of(tuple(runs), delta)


def torn_books(source: str, home: Path | None = None) -> list[str]:
    """A warning for each book of this source that ends in the middle of a line.

    A crash leaves such an end, and its run never began; but so does a copy that was cut off,
    and then the totals are too small.
    """
    return [
        f"warning: {book.path} ends in the middle of a line, which is not counted; if no crash "
        "explains it, restore the book from a copy."
        for book in _books(source, home)
        if book.torn
    ]


def _books(source: str, home: Path | None) -> list[Book]:
    return [Book.open(name, home) for name in dict.fromkeys((source, book_name(source)))]
