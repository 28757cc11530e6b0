"""The account book of a run's data."""

from __future__ import annotations

from pathlib import Path

from understudy.errors import UserError
from understudy.privacy.ledger.account_book import Book, book_name
from understudy.run.config import RunConfig
from understudy.run.folder import RunFolder


def open_book(config: RunConfig, home: Path | None) -> Book:
    return Book.open(config.dataset or book_name(config.source), home)


def look_book(config: RunConfig, home: Path | None) -> Book:
    """The same book, to read only."""
    return Book.look(config.dataset or book_name(config.source), home)


def require_own_book(config: RunConfig, folder: RunFolder, home: Path | None) -> None:
    """Refuse to go on with a run that has begun under another account book.

    Another book has another split key, so test records would become training records;
    and a plan entered twice would be counted in neither total as it should.
    """
    if not folder.ledger.exists():
        return
    book, ident = look_book(config, home), folder.read_plan()[0].ident
    if all(run.run_id != ident for run in book.runs()):
        raise UserError(
            f"the account book {book.path} does not know the run in {folder.path}; give the "
            "book that it began with, by --home or UNDERSTUDY_HOME."
        )
