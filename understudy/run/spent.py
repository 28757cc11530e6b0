"""What has been spent on a dataset, by the owner's account book."""

from __future__ import annotations

import math
from pathlib import Path

from understudy.errors import UserError
from understudy.privacy.accounting.accountants import Cost
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


def totals_in_words(totals: Totals) -> tuple[str, ...]:
    """The totals, one sentence each; what was spent locally comes first."""
    empirical = [
        f"Run {run.run_id} is empirical: no finite epsilon covers a total that holds it."
        for run in totals.runs
        if run.is_empirical
    ]
    return (*_local_in_words(totals), *_central_in_words(totals), *empirical)


def _local_in_words(totals: Totals) -> list[str]:
    if not totals.local:
        return []
    together = (
        f"Local runs together, for a record that left in each: epsilon "
        f"{_in_words(totals.local_all_runs)} at delta {totals.delta:g}; of those that were "
        f"sent, {_in_words(totals.local_released)}."
    )
    return [together] + [
        f"Run {run.run_id} is local, apart from central totals: epsilon {_in_words(cost)} "
        f"per record, at delta {totals.delta:g}."
        for run, cost in totals.local
    ]


def _central_in_words(totals: Totals) -> list[str]:
    if totals.local and len(totals.local) == len(totals.runs):
        return ["Central runs: none; a local price never composes with a central one."]
    which = ("Central releases", "All central runs") if totals.local else ("Released", "All runs")
    return [
        f"{which[0]}: epsilon {_in_words(totals.released)} at delta {totals.delta:g}.",
        f"{which[1]}, audits included: epsilon {_in_words(totals.all_runs)} "
        f"at delta {totals.delta:g}.",
    ]


def _in_words(cost: Cost) -> str:
    return "infinite" if math.isinf(cost.epsilon) else f"{cost.epsilon:.4g} ({cost.accountant})"
