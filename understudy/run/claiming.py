"""What a fitted run may claim."""

from __future__ import annotations

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.methods.config import ResolvedConfig
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.ledger.ledger import read_ledger
from understudy.release.build import build_claim, current_versions, summarise
from understudy.release.claim import Claim, Tuning
from understudy.release.facts import RunFacts
from understudy.run.config import RunConfig
from understudy.run.folder import RunFolder
from understudy.run.tuning import EarlierRuns, tuning_of


def claim_of(fitted: RunFolder, records: Records, tuning: Tuning) -> Claim:
    """The claim that a finished run supports, for these samples of it.

    Guarantee: a function of the plan, declared facts and what is given. Of the owner's ledger it
    reads that it is closed, and nothing else.
    """
    if read_ledger(fitted.ledger)[-1].kind != "close":
        raise UserError(f"{fitted.path} is not finished, so it claims nothing yet; add --resume.")
    return build_claim(
        fitted.read_plan()[0],
        facts_of(fitted),
        tuning=tuning,
        records=summarise(records),
        versions=current_versions(),
    )


def facts_of(run: RunFolder) -> RunFacts:
    """What a run declared when it began; nothing measured on private records."""
    return RunFacts.from_json(run.read_plan()[1])


def tuning_of_run(
    fitted: RunFolder, config: RunConfig, settings: ResolvedConfig, book: Book
) -> Tuning:
    """How the settings of a run were chosen.

    Earlier runs are all others that the book holds by now, not at the start: one that went on
    beside this one is known by now.
    """
    earlier = EarlierRuns.beside(book.runs(), fitted.read_plan()[0].ident)
    return tuning_of(config, settings, earlier)
