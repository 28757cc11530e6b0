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
from understudy.release.authenticity import check_digest
from understudy.release.build import Price, Reckoning, reckon, run_facts
from understudy.release.card import card_problems
from understudy.release.claim import Claim
from understudy.release.claim_check import claim_problems, version_notes
from understudy.release.croissant import croissant_problems
from understudy.release.documents import read_document, read_plain
from understudy.release.doubt import UNREADABLE, reason
from understudy.release.gate import run_refusals
from understudy.release.ledger_check import ledger_problems
from understudy.release.manifest import MANIFEST, is_plain
from understudy.release.parquet_tables import table_problems
from understudy.release.seal import Seal, check_seal
from understudy.release.sheet import sheet_problems

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

    @staticmethod
    def of(
        seal: Seal,
        problems: Sequence[str],
        notes: Sequence[str],
        claim: Claim | None = None,
        cost: Price | None = None,
    ) -> Verification:
        """What the seal shows, and what was found inside; a problem anywhere undoes a voucher."""
        found = tuple(dict.fromkeys((*seal.problems, *problems, *seal.voucher.problems)))
        said = (*notes, *seal.notes, *seal.voucher.notes)
        vouched = seal.voucher.vouched and not found
        return Verification(found, said, seal.digest, claim, cost, vouched)

    def __repr__(self) -> str:
        return f"Verification({self.verdict!r}, {len(self.problems)} problems)"

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
        unknown = [_WHO_MADE_IT] if self.ok and not self.authenticated else []
        return [self.verdict, *headline, *unknown, *self.problems, *self.notes]


_WHO_MADE_IT = (
    "Its files and figures agree with each other. That its owner made it shows only with what they "
    "published elsewhere: --digest or --key."
)


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
    return _Check(folder, check_seal(folder, layout.RELEASE, digest, key)).run()


@dataclass
class _Check:
    """One verification in progress."""

    folder: Path
    seal: Seal
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self) -> Verification:
        claim = self._claim()
        entries = self._ledger()
        reckoning = None if entries is None else self._reckon(entries)
        if claim is not None and entries is not None and reckoning is not None:
            self._hold_against_ledger(claim, entries, reckoning)
        if claim is not None:
            self._contents(claim)
        cost = None if reckoning is None else reckoning.price
        return Verification.of(self.seal, self.problems, self.notes, claim, cost)

    def _claim(self) -> Claim | None:
        claim, problems = read_document(self.folder, layout.CLAIM, Claim.from_bytes)
        self.problems += problems
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
        self.notes += [m.caveat for m in reckoning.plan.mechanisms if m.caveat is not None]

    def _sheet(self, tables: list[str], claim: Claim) -> list[str]:
        """Of a contact sheet that is there: whether it shows these tables."""
        try:
            data = (
                None if layout.SHEET in self.seal.changed else read_plain(self.folder, layout.SHEET)
            )
            return [] if data is None else sheet_problems(data, self.folder, tables, claim.records)
        except UNREADABLE as error:
            return [reason(error, layout.SHEET)]

    def _contents(self, claim: Claim) -> None:
        """What tables, card and metadata say; a table that was changed is not opened."""
        tables = layout.RELEASE.tables(self.seal.hashes)
        if not self.seal.changed.intersection(tables):
            found = table_problems(self.folder, tables, claim.records)
            self.problems += found or self._sheet(tables, claim)
        card = read_plain(self.folder, layout.CARD)
        croissant = read_plain(self.folder, layout.CROISSANT)
        if card is not None:
            self.problems += card_problems(card, claim)
        if croissant is not None:
            hashes = {name: self.seal.hashes[name] for name in tables}
            self.problems += croissant_problems(croissant, claim, hashes)
