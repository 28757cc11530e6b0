"""What a fitted run may claim."""

from __future__ import annotations

from understudy.data.records import Records
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.ledger.ledger import read_ledger
from understudy.release.build import build_claim, current_versions, summarise
from understudy.release.claim import Claim
from understudy.run.folder import RunFolder
from understudy.run.prepare import Prepared
from understudy.run.tuning import tuning_of


def claim_of(fitted: RunFolder, records: Records, prepared: Prepared, book: Book) -> Claim:
    """The claim that a run's ledger supports, for these samples of it.

    Earlier runs are all others that the book holds by now, not at the start: one that went on
    beside this one is known by now. Whatever its purpose, budget and end, a run that was entered
    counts: it may have been looked at.
    """
    ident = fitted.read_plan()[0].ident
    others = [run for run in book.runs() if run.run_id != ident]
    return build_claim(
        read_ledger(fitted.ledger),
        tuning=tuning_of(prepared.config, prepared.settings, others),
        records=summarise(records),
        versions=current_versions(),
    )
