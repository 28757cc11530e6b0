"""Checking a collection: that it agrees with itself, with its encoder, and whose it is."""

from __future__ import annotations

from pathlib import Path

from understudy.encoders.encoder import Encoder
from understudy.encoders.file import read_encoder
from understudy.errors import UserError
from understudy.federated.collected_table import table_problems
from understudy.federated.collection_card import card_problems
from understudy.federated.collection_claim import (
    CLAIM,
    CollectionClaim,
    claim_problems,
    encoder_problems,
)
from understudy.release.authenticity import check_digest
from understudy.release.documents import read_document, read_plain
from understudy.release.doubt import UNREADABLE, reason
from understudy.release.layout import CARD, ONLY_TABLE, Layout
from understudy.release.seal import check_seal
from understudy.release.verify import Verification, verify

COLLECTION = Layout("collection", (CLAIM,), shards=False)

_NOT_COMPARED = "what its encoder learnt from is its own word; --encoder FILE checks it."


def verify_any(
    folder: Path,
    *,
    digest: str | None = None,
    key: Path | None = None,
    encoder: Path | None = None,
) -> Verification:
    """Check a release or a collection, whichever the folder is.

    encoder: the file of a collection's encoder, which its claim is held against.
    """
    if (folder / CLAIM).is_file():
        given = None if encoder is None else read_encoder(encoder)
        return verify_collection(folder, digest=digest, key=key, encoder=given)
    if not folder.exists():
        raise UserError(f"{folder} does not exist; name the folder of a release or a collection.")
    if encoder is not None:
        raise UserError(f"{folder} is no collection; --encoder goes with one, so leave it out.")
    return verify(folder, digest=digest, key=key)


def verify_collection(
    folder: Path,
    *,
    digest: str | None = None,
    key: Path | None = None,
    encoder: Encoder | None = None,
) -> Verification:
    """Recompute every hash, the claim from its terms, the card, and the counts from the table.

    digest, key: what the collector published, as for any release. encoder: the claim must cite
    this one, and what it learnt from.
    """
    check_digest(digest)
    seal = check_seal(folder, COLLECTION, digest, key)
    claim, problems = read_document(folder, CLAIM, CollectionClaim.from_bytes)
    if claim is None:
        return Verification.of(seal, problems, ())
    try:
        problems += claim_problems(claim)
        if encoder is not None:
            problems += encoder_problems(claim, encoder)
    except UNREADABLE as error:
        problems.append(reason(error, CLAIM))
    card = read_plain(folder, CARD)
    if card is not None:
        problems += card_problems(card, claim)
    if ONLY_TABLE not in seal.changed:
        problems += table_problems(folder / ONLY_TABLE, claim.records)
    notes = claim.statement if encoder is not None else [*claim.statement, _NOT_COMPARED]
    return Verification.of(seal, problems, notes)
