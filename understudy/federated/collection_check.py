"""Checking a collection: that it agrees with itself, with its encoder, and whose it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from understudy.encoders.encoder import Encoder
from understudy.encoders.file import read_encoder
from understudy.errors import UserError
from understudy.federated.collected_table import TABLE, table_problems
from understudy.federated.collection_card import card_problems
from understudy.federated.collection_claim import (
    CLAIM,
    claim_problems,
    encoder_problems,
    form_problems,
)
from understudy.release import layout
from understudy.release.authenticity import check_digest, vouch
from understudy.release.doubt import UNREADABLE, reason
from understudy.release.manifest import (
    MANIFEST,
    SIGNATURE,
    digest_of,
    file_hashes,
    is_plain,
    listed_files,
    manifest_problems,
)
from understudy.release.strict_json import parse_object
from understudy.release.verify import Verification, verify

CARD = layout.CARD
_REQUIRED = (CARD, CLAIM, TABLE, MANIFEST)
FILES = (*_REQUIRED, SIGNATURE)
"""All that a collection may hold."""

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
    names = listed_files(folder)
    problems = [f"{name} is missing." for name in _REQUIRED if name not in names]
    problems += [f"{n} does not belong in a collection." for n in names if n not in FILES]
    problems += [f"{n} is not a plain file." for n in names if not is_plain(folder / n)]
    manifest = _read(folder, MANIFEST) or b""
    wrong, damaged = manifest_problems(file_hashes(folder), manifest)
    found = digest_of(manifest)
    voucher = vouch(_read(folder, SIGNATURE), found, digest, key)
    said, notes = _contents(folder, encoder, TABLE in damaged)
    problems += [*wrong, *voucher.problems, *said]
    vouched = voucher.vouched and not problems
    return Verification(
        tuple(dict.fromkeys(problems)), (*notes, *voucher.notes), found, None, None, vouched
    )


def _contents(
    folder: Path, encoder: Encoder | None, changed: bool
) -> tuple[list[str], tuple[str, ...]]:
    """Problems of what claim, card and table say, and the claim's words; a changed table is
    not opened."""
    problems: list[str] = []
    try:
        said = _read(folder, CLAIM) or b""
        claim = parse_object(said, CLAIM)
        problems += claim_problems(claim) + form_problems(said, claim)
        if encoder is not None:
            problems += encoder_problems(claim, encoder)
        problems += card_problems(_read(folder, CARD) or b"", claim)
        if not changed:
            problems += table_problems(folder / TABLE, claim["records"])
        words = tuple(str(line) for line in claim["statement"])
    except (*UNREADABLE, ArithmeticError, pa.ArrowException) as error:
        return [*problems, reason(error, f"{CLAIM} or {TABLE}")], ()
    return problems, words if encoder is not None else (*words, _NOT_COMPARED)


def _read(folder: Path, name: str) -> bytes | None:
    path = folder / name
    return path.read_bytes() if is_plain(path) else None
