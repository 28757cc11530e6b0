"""A collection on disk: a folder that `datasets.load_dataset` opens, with a claim to check.

It is no release of `understudy synthesize`: there was no door and no ledger, since no owner held
the records. What stands for the ledger is the list of terms under which users sent. Everything
else that a release has it has too: it passes the gate, may be signed, and verifies before it
appears.
"""

from __future__ import annotations

from pathlib import Path

from understudy.encoders.citation import Citation
from understudy.encoders.encoder import Encoder
from understudy.errors import UserError
from understudy.federated.collected_table import table_problems, write_table
from understudy.federated.collection_card import collection_card
from understudy.federated.collection_check import COLLECTION, verify_collection
from understudy.federated.collection_claim import CLAIM, CollectionClaim
from understudy.federated.merging import Merged
from understudy.release.card import check_title
from understudy.release.files import new_folder, refuse_existing, write_file
from understudy.release.gate import require
from understudy.release.layout import CARD, ONLY_TABLE
from understudy.release.leaks import content_refusals, machine_paths
from understudy.release.seal import seal
from understudy.release.signing import check_signing_key


def write_collection(
    folder: Path,
    merged: Merged,
    encoder: Encoder,
    title: str,
    signing_key: Path | None = None,
) -> str:
    """Write the folder, whole or not at all; gives its digest.

    Guarantee: what appears at `folder` passed the gate and verifies, and its claim cites the
    encoder as the encoder's own file has it; after any error nothing is there. Who was left
    out is not in it: that is for the collector alone.
    """
    if merged.agreement.encoder != Citation.of(encoder):
        raise UserError("users sent under an agreement that names another encoder than this one.")
    check_title(title)
    claim = CollectionClaim.of(merged)
    with new_folder(folder) as partial:
        (partial / ONLY_TABLE).parent.mkdir()
        write_table(partial / ONLY_TABLE, merged, claim.records)
        write_file(partial / CLAIM, claim.to_bytes())
        write_file(partial / CARD, collection_card(claim, title))
        digest = seal(partial, signing_key)
        require(folder_refusals(partial, claim))
        require(verify_collection(partial, digest=digest, encoder=encoder).problems)
    return digest


def check_means(folder: Path, title: str, signing_key: Path | None) -> None:
    """Refuse a place, a title or a key that cannot be used, before users are asked."""
    refuse_existing(folder)
    check_title(title)
    for text in machine_paths([title]):
        raise UserError(f"title: {text!r} reads like a path of your machine; leave it out.")
    if signing_key is not None:
        check_signing_key(signing_key)


def folder_refusals(folder: Path, claim: CollectionClaim) -> list[str]:
    """Why this collection may not leave the collector's machine; empty if it may.

    The rules are those of every release (`understudy.release.leaks`), whatever the claim's kind.
    There is no scan for copies: the collector never held a raw record to compare with, so each
    device looks for itself before it sends (`understudy.federated.copies`).
    """
    reasons = content_refusals(folder, COLLECTION, claim.records.schema, None)
    return reasons + table_problems(folder / ONLY_TABLE, claim.records)
