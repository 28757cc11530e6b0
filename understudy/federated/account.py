"""What a device writes down of what it sends, in the account book of its owner's records.

`understudy spent` adds it up. The book stays on the device: it is the user's, like the records.
"""

from __future__ import annotations

import math

from understudy.encoders.citation import Citation
from understudy.federated.contribution import FILTER, GAUSSIAN, Contribution
from understudy.federated.sent_folder import digest_of
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.local.channel import LocalChannel
from understudy.privacy.plan.mechanisms import Reveal
from understudy.privacy.plan.plan import Budget, Plan

_NOT_PRIVATE = "sent through a filter, which promises nothing"


def reserve(book: Book, channel: LocalChannel, encoder: Citation) -> str:
    """Enter one use of a local channel; gives the name of the entry.

    Guarantee: on the disk when this returns, so that a total never misses a use whose noise was
    drawn after it. Every use is an entry of its own, since its noise is: sending the same
    records again spends again. Labels declared public are in no price; the entry names them.
    """
    plan = channel.plan()
    facts = {
        "mechanism": GAUSSIAN,
        "encoder": encoder.digest,
        "public_labels": sorted(channel.public_labels),
    }
    book.enter(plan.ident, plan, facts=facts)
    return plan.ident


def note_sent(book: Book, entry: str, contribution: Contribution) -> None:
    """Say in the book that a reserved use leaves the device; call it before it does."""
    book.mark_released(entry, digest_of(contribution.statement(), contribution.arrays()))


def note_filtered(book: Book, contribution: Contribution) -> None:
    """Enter filtered records that are about to leave: no finite epsilon covers them."""
    plan = Plan(
        Budget.empirical(),
        (Reveal("filtered records", _NOT_PRIVATE),),
        math.inf,
        f"none: {_NOT_PRIVATE}",
        Plan.new_ident(),
    )
    facts = {"mechanism": FILTER, "encoder": contribution.encoder.digest}
    book.enter(plan.ident, plan, facts=facts)
    note_sent(book, plan.ident, contribution)
