"""What has been spent on a dataset, by the owner's account book."""

from __future__ import annotations

from pathlib import Path

from understudy.errors import UserError
from understudy.privacy.account_book import Book, Totals
from understudy.run.prepare import book_name


def spent(source: str, *, delta: float = 1e-5, home: Path | None = None) -> Totals:
    """Two totals at one delta: of the releases, and of all runs (audits included).

    source: what the runs were given as data, or the owner's own name for it.
    """
    if not 0 < delta < 1:
        raise UserError(f"--delta must lie between 0 and 1, not {delta!r}.")
    return _book(source, home).total(delta)


def _book(source: str, home: Path | None) -> Book:
    """The owner's own name wins over a folder that happens to be called so."""
    named = Book.open(source, home)
    return named if named.runs() else Book.open(book_name(source), home)
