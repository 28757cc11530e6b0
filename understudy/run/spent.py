"""What has been spent on a dataset, by the owner's account book."""

from __future__ import annotations

from pathlib import Path

from understudy.errors import UserError
from understudy.privacy.account_book import Book, Totals, total_of
from understudy.run.prepare import book_name


def spent(source: str, *, delta: float = 1e-5, home: Path | None = None) -> Totals:
    """Two totals at one delta: of the releases, and of all runs (audits included).

    source: what the runs were given as data, or the owner's own name for it. Where both a
        name and a folder of that name have books, the totals are over both.
    """
    if not 0 < delta < 1:
        raise UserError(f"--delta must lie between 0 and 1, not {delta!r}.")
    names = dict.fromkeys((source, book_name(source)))
    runs = [run for name in names for run in Book.open(name, home).runs()]
    return total_of(tuple(runs), delta)
