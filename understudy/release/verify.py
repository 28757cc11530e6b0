"""Checking a release: that it agrees with itself, and, given digest or key, whose it is.

`verify` reads what strangers made, so everything in it is doubted: it opens no pickle,
follows no link, and turns whatever is unreadable into a problem with a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from understudy.errors import UserError
from understudy.privacy.ledger.entries import Entry
from understudy.privacy.ledger.ledger import read_ledger
from understudy.release import layout
from understudy.release.authenticity import check_digest, vouch
from understudy.release.build import Price, Reckoning, reckon, run_facts
from understudy.release.card import card_problems
from understudy.release.claim import Claim
from understudy.release.claim_check import claim_problems, version_notes
from understudy.release.croissant import croissant_problems
from understudy.release.doubt import UNREADABLE, reason
from understudy.release.gate import run_refusals
from understudy.release.ledger_check import ledger_problems
from understudy.release.manifest import (
    MANIFEST,
    SIGNATURE,
    digest_of,
    file_hashes,
    is_plain,
    listed_files,
    manifest_problems,
)
from understudy.release.tables import table_problems

_RUN_MARK = "config.yaml"
"""What a run folder has and no release may have."""


@dataclass(frozen=True)
class Verification:
    """What a check of a release found.

    cost: the price recomputed from the ledger, or None where there is none.
    authenticated: a digest or key that the caller brought vouches for the release.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    digest: str | None
    claim: Claim | None
    cost: Price | None
    authenticated: bool

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def verdict(self) -> str:
        if not self.ok:
            return "not verified"
        if self.authenticated:
            return "consistent and authenticated"
        return "consistent, not authenticated"

    def lines(self) -> list[str]:
        """What to print: the verdict, the claim's first sentence, problems and notes."""
        headline = [self.claim.statement[0]] if self.claim and self.ok else []
        return [self.verdict, *headline, *self.problems, *self.notes]


def verify(
    folder: Path | str, *, digest: str | None = None, key: Path | None = None
) -> Verification:
    """Check every hash, the ledger, the claim recomputed from it, and the tables.

    digest: what the owner says the release's digest is. key: the owner's public key (PEM).
    Without either, somebody who rewrote the whole release would go unnoticed.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"no release at {folder}; name the folder of one.")
    if not any((folder / name).exists() for name in (layout.CLAIM, MANIFEST)):
        raise UserError(f"{folder} is no release: it has no {layout.CLAIM} and no {MANIFEST}.")
    if (folder / _RUN_MARK).exists() and not (folder / MANIFEST).exists():
        raise UserError(f"{folder} is a run folder, the owner's own; verify the release beside it.")
    check_digest(digest)
    return _Check(folder).run(digest, key)


@dataclass
class _Check:
    """One verification in progress."""

    folder: Path
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)

    def run(self, digest: str | None, key: Path | None) -> Verification:
        manifest = self._read(MANIFEST)
        damaged = self._files(manifest)
        claim = self._claim()
        entries = self._ledger()
        reckoning = None if entries is None else self._reckon(entries)
        if claim is not None and entries is not None and reckoning is not None:
            self._hold_against_ledger(claim, entries, reckoning)
        if claim is not None:
            self._contents(claim, damaged)
        found = None if manifest is None else digest_of(manifest)
        vouched = found is not None and self._authenticate(found, digest, key)
        problems = tuple(dict.fromkeys(self.problems))
        cost = None if reckoning is None else reckoning.price
        return Verification(
            problems, tuple(self.notes), found, claim, cost, vouched and not problems
        )

    def _read(self, name: str) -> bytes | None:
        path = self.folder / name
        try:
            return path.read_bytes() if is_plain(path) else None
        except OSError as error:
            self.problems.append(f"{name} cannot be read: {error.strerror}.")
            return None

    def _files(self, manifest: bytes | None) -> set[str]:
        """Compare files with the manifest; gives those that are not what it lists."""
        names = listed_files(self.folder)
        self.problems += [f"{name} is missing." for name in layout.missing(names)]
        self.problems += [f"{name} does not belong in a release." for name in layout.unknown(names)]
        for name in names:
            if not is_plain(self.folder / name):
                self.problems.append(f"{name} is not a plain file.")
        self.hashes = file_hashes(self.folder)
        if manifest is None:
            return set(self.hashes)
        problems, wrong = manifest_problems(self.hashes, manifest)
        self.problems += problems
        return wrong

    def _claim(self) -> Claim | None:
        data = self._read(layout.CLAIM)
        if data is None:
            return None
        try:
            claim = Claim.from_bytes(data)
        except UNREADABLE as error:
            self.problems.append(reason(error, layout.CLAIM))
            return None
        if claim.to_bytes() != data:
            self.problems.append(f"{layout.CLAIM} is not in its canonical form.")
        return claim

    def _ledger(self) -> tuple[Entry, ...] | None:
        path = self.folder / layout.LEDGER
        if not is_plain(path):
            return None
        try:
            entries = read_ledger(path)
        except UNREADABLE as error:
            self.problems.append(reason(error, layout.LEDGER))
            return None
        self.problems += ledger_problems(entries)
        return entries

    def _reckon(self, entries: Sequence[Entry]) -> Reckoning | None:
        try:
            return reckon(entries)
        except UNREADABLE as error:
            self.problems.append(reason(error, layout.LEDGER))
            return None

    def _hold_against_ledger(
        self, claim: Claim, entries: Sequence[Entry], reckoning: Reckoning
    ) -> None:
        try:
            self.problems += claim_problems(claim, entries, reckoning)
            self.problems += run_refusals(claim, run_facts(entries))
        except UNREADABLE as error:
            self.problems.append(reason(error, layout.LEDGER))
        self.notes += version_notes(claim, reckoning.price)

    def _contents(self, claim: Claim, damaged: set[str]) -> None:
        """What tables, card and metadata say; a table that was changed is not opened."""
        tables = layout.shards(self.hashes)
        if not damaged.intersection(tables):
            self.problems += table_problems(self.folder, tables, claim.records)
        card, croissant = self._read(layout.CARD), self._read(layout.CROISSANT)
        if card is not None:
            self.problems += card_problems(card, claim)
        if croissant is not None:
            hashes = {name: self.hashes[name] for name in tables}
            self.problems += croissant_problems(croissant, claim, hashes)

    def _authenticate(self, found: str, digest: str | None, key: Path | None) -> bool:
        """Whether the caller's digest or key vouches for the manifest that was found."""
        voucher = vouch(self._read(SIGNATURE), found, digest, key)
        self.problems += voucher.problems
        self.notes += voucher.notes
        return voucher.vouched
