"""Writing a release: tables, card, claim, ledger, metadata, manifest, signature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.privacy.ledger.released import released_ledger
from understudy.privacy.plan.plan import Plan
from understudy.release import layout
from understudy.release.build import summarise
from understudy.release.card import check_title, data_card
from understudy.release.claim import Claim
from understudy.release.croissant import croissant_bytes
from understudy.release.facts import RunFacts
from understudy.release.files import new_folder, refuse_existing, write_file
from understudy.release.gate import copy_refusals, require, run_refusals
from understudy.release.leaks import folder_refusals
from understudy.release.manifest import hash_file
from understudy.release.near_copies import CopyScan
from understudy.release.parquet_tables import SHARD_BYTES, check_records, write_shards
from understudy.release.seal import seal
from understudy.release.sheet import sheet_png
from understudy.release.verify import verify


@dataclass(frozen=True)
class ReleaseInfo:
    """A release that was written; `digest` is what its owner should publish elsewhere too."""

    folder: Path
    digest: str
    shards: tuple[str, ...]
    signed: bool


def write_release(
    folder: Path,
    *,
    records: Records,
    claim: Claim,
    plan: Plan,
    facts: RunFacts,
    title: str,
    signing_key: Path | None = None,
    licence: str | None = None,
    scan: CopyScan | None = None,
    shard_bytes: int = SHARD_BYTES,
    announce: Callable[[str], None] | None = None,
    pictured: bool = True,
) -> ReleaseInfo:
    """Write a release folder, whole or not at all.

    Guarantee: what appears at `folder` passed the gate and verifies; after any error
    nothing is there. It is a function of what is given: synthetic records, their claim, the
    plan and declared facts; no private record and no ledger of the owner's comes here.
    `scan` is what a scan for copies of private records found, which an empirical claim
    needs and no other has. `announce` is given the digest before the folder appears: no
    release goes out that the owner's book misses. pictured: whether it has a contact sheet, which
    shows a few of its records to whoever looks at the folder.
    """
    refuse_existing(folder)
    check_title(title)
    check_records(records)
    if claim.records != summarise(records):
        raise UserError("the claim describes other records than those to be released.")
    require(run_refusals(claim, facts))
    require(copy_refusals(claim, len(records), scan))
    with new_folder(folder) as partial:
        shards = write_shards(records, partial, shard_bytes)
        _write_documents(partial, claim, title, licence, shards)
        if pictured:
            write_file(partial / layout.SHEET, sheet_png(partial, shards, claim.records))
        ledger = released_ledger(plan, facts.to_json())
        write_file(partial / layout.LEDGER, b"".join(entry.line() for entry in ledger))
        digest = seal(partial, signing_key)
        require(folder_refusals(partial, claim))
        require(verify(partial, digest=digest).problems)
        if announce is not None:
            announce(digest)
    return ReleaseInfo(folder, digest, tuple(shards), signing_key is not None)


def _write_documents(
    folder: Path, claim: Claim, title: str, licence: str | None, shards: list[str]
) -> None:
    hashes = {name: hash_file(folder / name) for name in shards}
    write_file(folder / layout.CLAIM, claim.to_bytes())
    write_file(folder / layout.CARD, data_card(claim, title, licence))
    write_file(folder / layout.CROISSANT, croissant_bytes(claim, title, licence, hashes))
