"""A collection on disk: a folder that `datasets.load_dataset` opens, with a claim to check.

It is no release of `understudy synthesize`: there was no door and no ledger, since no owner held
the records. What stands for the ledger is the list of terms under which users sent. Everything
else that a release has it has too: it passes the gate, may be signed, and verifies before it
appears.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.data.schema import Attribute, Schema
from understudy.encoders.citation import Citation
from understudy.encoders.encoder import Encoder
from understudy.errors import PrivacyError, UserError
from understudy.federated.collected_table import TABLE, table_problems, write_table
from understudy.federated.collection_card import collection_card
from understudy.federated.collection_check import CARD, FILES, verify_collection
from understudy.federated.collection_claim import CLAIM, claim_of
from understudy.federated.merging import Merged
from understudy.release.card import check_title
from understudy.release.files import new_folder, refuse_existing, write_file
from understudy.release.gate import require
from understudy.release.leaks import file_refusals, machine_paths, private_columns
from understudy.release.manifest import (
    MANIFEST,
    SIGNATURE,
    digest_of,
    file_hashes,
    listed_files,
    manifest_bytes,
)
from understudy.release.signing import check_signing_key, sign
from understudy.release.strict_json import readable_bytes

_DOCUMENTS = (CLAIM, SIGNATURE)


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
    claim = claim_of(merged)
    with new_folder(folder) as partial:
        (partial / TABLE).parent.mkdir()
        write_table(partial / TABLE, merged)
        write_file(partial / CLAIM, readable_bytes(claim))
        write_file(partial / CARD, collection_card(title, claim))
        manifest = manifest_bytes(file_hashes(partial))
        digest = digest_of(manifest)
        write_file(partial / MANIFEST, manifest)
        if signing_key is not None:
            write_file(partial / SIGNATURE, sign(digest, signing_key))
        require(folder_refusals(partial, claim))
        found = verify_collection(partial, digest=digest, encoder=encoder)
        if not found.ok:
            raise PrivacyError(f"no release was written: {' '.join(found.problems)}")
    return digest


def check_means(folder: Path, title: str, signing_key: Path | None) -> None:
    """Refuse a place, a title or a key that cannot be used, before users are asked."""
    refuse_existing(folder)
    check_title(title)
    for text in machine_paths([title]):
        raise UserError(f"title: {text!r} reads like a path of your machine; leave it out.")
    if signing_key is not None:
        check_signing_key(signing_key)


def folder_refusals(folder: Path, claim: Mapping[str, Any]) -> list[str]:
    """Why this collection may not leave the collector's machine; empty if it may.

    The rules are those of every release (`understudy.release.leaks`), whatever the claim's kind.
    There is no scan for copies: the collector never held a raw record to compare with, so each
    device looks for itself before it sends (`understudy.federated.copies`).
    """
    names = listed_files(folder)
    reasons = [f"{n} does not belong in a collection." for n in names if n not in FILES]
    labels = claim["records"]["labels"]
    schema = Schema(tuple(Attribute(a["name"], tuple(a["classes"])) for a in labels))
    reasons += [
        f"the column {column!r} tells records or people apart."
        for column in private_columns(schema, None)
    ]
    for name in names:
        found = file_refusals(folder / name, name, _DOCUMENTS)
        reasons += [f"{name} {reason}" for reason in found]
    return reasons + table_problems(folder / TABLE, claim["records"])
