"""The owner's account book: every run on a dataset, entered whole before it begins.

Releases of one dataset add up, whatever method, part or folder they came from. So each
dataset that the owner names has one book: append-only, hash-chained, locked while it is
written and flushed to the disk. It stays with the owner and is never released, so it may
hold times. It names the dataset as the owner does; nothing in it is computed from the
records.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from understudy.durable import OWNER_ONLY, replace_durably
from understudy.errors import PrivacyError, UserError, home_expanded
from understudy.privacy.ledger.account_totals import BookRun, Totals, total_of
from understudy.privacy.ledger.chained_file import Addition, ChainedFile
from understudy.privacy.ledger.entries import Entry
from understudy.privacy.plan.plan import Plan

FORMAT = "understudy-book/1"
KINDS = ("book", "split-key", "enter", "release", "evaluate")
PURPOSES = ("release", "audit")
SPLIT_KEY_BYTES = 32
_FOLDER = "books"


class Book:
    """The account book of one dataset. Safe to use from several processes at once."""

    def __init__(self, dataset: str, path: Path) -> None:
        self.dataset = dataset
        self.path = path
        self._file = ChainedFile(path, "account book")

    @classmethod
    def open(cls, dataset: str, home: Path | None = None) -> Book:
        """The book of the dataset that the owner calls `dataset`, made at its first entry.

        Books live in `home`, else `$UNDERSTUDY_HOME`, else `~/.understudy`.
        """
        if not dataset.strip():
            raise UserError("the dataset needs a name for its account book.")
        return cls(dataset, books_folder(home) / _file_name(dataset))

    @classmethod
    def look(cls, dataset: str, home: Path | None = None) -> Book:
        """The same book, to read only: a look ahead makes no folder for it."""
        return cls(dataset, _home(home) / _FOLDER / _file_name(dataset))

    @classmethod
    def every(cls, home: Path | None = None) -> tuple[Book, ...]:
        """All books that there are, to read or to add to; it makes no folder for them."""
        found = []
        for path in sorted((_home(home) / _FOLDER).glob("*.jsonl")):
            title = next(iter(ChainedFile(path, "account book").read()), None)
            if title is not None:
                found.append(cls(str(title.body.get("dataset")), path))
        return tuple(found)

    @property
    def torn(self) -> bool:
        """Whether the book ends in the middle of a line, which then does not count."""
        return self._file.torn

    def enter(
        self,
        run_id: str,
        plan: Plan,
        purpose: str = "release",
        facts: Mapping[str, Any] | None = None,
    ) -> BookRun:
        """Enter a run with its whole plan; on the disk when this returns.

        Guarantee: called before the run's first access to records, it makes every later
        total include the whole plan, however the run ends. A plan is single-use: one that
        is entered already is refused, unless the same run goes on with it, with the same
        `facts` (a copy of its folder elsewhere would draw noise a second time).
        """
        if purpose not in PURPOSES:
            raise UserError(f"purpose must be {' or '.join(PURPOSES)}, not {purpose!r}.")
        told = dict(facts or {})
        body = {
            "run": run_id,
            "plan": plan.to_json(),
            "purpose": purpose,
            "facts": told,
            "entered": _now(),
        }

        def decide(entries: Sequence[Entry]) -> Sequence[Addition]:
            for run in _runs(entries):
                if run.run_id == run_id and run.plan == plan and run.purpose == purpose:
                    if run.facts != told:
                        raise PrivacyError(
                            f"run {run_id} was entered with {_told(run.facts)}, and now comes with "
                            f"{_told(told)}; a plan is single-use, so go on there, or "
                            "start a new run."
                        )
                    return []
                if run.plan.ident == plan.ident:
                    raise PrivacyError(
                        f"plan {plan.ident} was entered already, by run {run.run_id}; "
                        "a plan is single-use: calibrate a new one."
                    )
                if run.run_id == run_id:
                    raise PrivacyError(
                        f"run {run_id} was entered already with another plan; name it anew."
                    )
            return [("enter", body)]

        self._append(decide)
        return self.run(run_id)

    def mark_released(self, run_id: str, digest: str) -> None:
        """Note that a release of `run_id` with this digest leaves the owner.

        Call it before publishing. Several releases of one run cost no more than one:
        sampling is post-processing. An audit run cannot be released.
        """

        def decide(entries: Sequence[Entry]) -> Sequence[Addition]:
            run = _find(_runs(entries), run_id, self.dataset)
            if run.purpose != "release":
                raise PrivacyError(f"run {run_id} was entered for {run.purpose}, not for release.")
            if digest in run.released:
                return []
            return [("release", {"run": run_id, "digest": digest, "released": _now()})]

        self._append(decide)

    def mark_evaluated(self, run_id: str, protocol: str) -> None:
        """Note that figures of `run_id` on real records are about to be made, by this protocol.

        Guarantee: called before anything is measured, it makes the claim of every later run on
        this dataset say that tuning is not covered, unless its owner declares how it was chosen
        (rule 7). Whether it is noted follows from what the owner asked for, never from a figure.
        It costs nothing: the book is the owner's, and no total changes.
        """

        def decide(entries: Sequence[Entry]) -> Sequence[Addition]:
            if protocol in _find(_runs(entries), run_id, self.dataset).evaluated:
                return []
            return [("evaluate", {"run": run_id, "protocol": protocol, "evaluated": _now()})]

        self._append(decide)

    def total(self, delta: float) -> Totals:
        """Two totals at one `delta`: of what was released, and of every run entered.

        Guarantee: sequential composition of the events of whole plans, even of runs that
        stopped early, whatever parts they used (no discount for disjoint parts), under
        adding or removing one unit. An empirical run makes its totals infinite, and the local
        ones beside them, which are under replacing one record.
        """
        return total_of(self.runs(), delta)

    def runs(self) -> tuple[BookRun, ...]:
        """Every run entered, in order."""
        return _runs(self._read())

    def run(self, run_id: str) -> BookRun:
        return _find(self.runs(), run_id, self.dataset)

    def split_key(self) -> bytes:
        """The secret key of this dataset's splits: drawn once, kept beside the book, reused.

        Guarantee: with it a record's part depends on the record and the key alone, in every
        run. It is never released. A key that was drawn and is gone is an error: a new one
        would move records between parts.
        """
        key = b""

        def decide(entries: Sequence[Entry]) -> Sequence[Addition]:
            nonlocal key
            known = [e.body["fingerprint"] for e in entries if e.kind == "split-key"]
            if not known and not self._key_path.exists():
                key = os.urandom(SPLIT_KEY_BYTES)
                replace_durably(self._key_path, key.hex().encode(), OWNER_ONLY)
            key = self._read_key()
            if not known:
                return [("split-key", {"fingerprint": _fingerprint(key)})]
            if known[0] != _fingerprint(key):
                raise UserError(f"{self._key_path} is not the split key that this book began with.")
            return []

        self._append(decide)
        return key

    @property
    def _key_path(self) -> Path:
        return self.path.with_suffix(".split-key")

    def _read_key(self) -> bytes:
        try:
            written = self._key_path.read_bytes().decode("ascii")
            key = bytes.fromhex(written)
        except FileNotFoundError as error:
            raise UserError(
                f"the split key {self._key_path} is missing; restore it, or name the dataset "
                "anew to begin another book."
            ) from error
        except ValueError:
            written, key = "", b""
        if len(key) != SPLIT_KEY_BYTES or key.hex() != written:
            raise UserError(
                f"{self._key_path} does not hold a split key: 64 lower-case hex digits and nothing "
                "else."
            )
        return key

    def _read(self) -> tuple[Entry, ...]:
        return self._checked(self._file.read())

    def _append(self, decide: Callable[[Sequence[Entry]], Sequence[Addition]]) -> None:
        """Add what `decide` says; a new book first says whose it is."""

        def decide_with_title(entries: Sequence[Entry]) -> Sequence[Addition]:
            added = decide(self._checked(tuple(entries)))
            title = ("book", {"format": FORMAT, "dataset": self.dataset})
            return added if entries or not added else [title, *added]

        self._file.append(decide_with_title)

    def _checked(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """Refuse another dataset's book, and kinds of entry that may hide a cost."""
        for entry in entries:
            if entry.kind not in KINDS:
                raise UserError(
                    f"account book {self.path}, line {entry.index + 1}: unknown kind "
                    f"{entry.kind!r}; a newer version may have written it."
                )
        if entries and entries[0].body.get("dataset") != self.dataset:
            raise UserError(
                f"account book {self.path} belongs to {entries[0].body.get('dataset')!r}, "
                f"not to {self.dataset!r}."
            )
        return entries


def default_dataset_name(source: str) -> str:
    """What a dataset is called when its owner gives no name: its path, or its catalog name."""
    path = home_expanded(source)
    return str(path.resolve()) if path.exists() else source


def book_name(source: str) -> str:
    """Under what name a source's runs add up, where its owner gives none.

    As in loading, a catalog name means the catalog's data, whatever lies beside us.
    """
    from understudy.data.catalog import catalog

    return source if source in catalog() else default_dataset_name(source)


def books_folder(home: Path | None) -> Path:
    """Where account books lie, made if need be; what cannot be one is refused."""
    folder = _home(home) / _FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UserError(
            f"cannot make the account book folder {folder} ({error.strerror}); "
            "set UNDERSTUDY_HOME to a folder that can be written."
        ) from error
    return folder


def places_folder(home: Path | None) -> Path:
    """Where runs that have begun note what they are to be released as; not made here."""
    return _home(home) / "places"


def _home(home: Path | None) -> Path:
    if home is not None:
        return home
    return home_expanded(os.environ.get("UNDERSTUDY_HOME") or "~/.understudy")


def _file_name(dataset: str) -> str:
    return f"{_slug(dataset)}.jsonl"


def _slug(dataset: str) -> str:
    """A file name that a person recognises; the hash, of the name alone, keeps books apart."""
    readable = re.sub(r"[^a-z0-9]+", "-", dataset.lower()).strip("-")[-40:].strip("-")
    return f"{readable or 'dataset'}-{hashlib.sha256(dataset.encode()).hexdigest()[:12]}"


def _runs(entries: Sequence[Entry]) -> tuple[BookRun, ...]:
    runs: dict[str, BookRun] = {}
    for entry in entries:
        body = entry.body
        if entry.kind == "enter":
            runs[body["run"]] = BookRun(
                run_id=body["run"],
                plan=Plan.from_json(body["plan"]),
                purpose=body["purpose"],
                facts=body["facts"],
                entered=body["entered"],
            )
        elif entry.kind == "release":
            run = runs[body["run"]]
            runs[run.run_id] = replace(run, released=(*run.released, body["digest"]))
        elif entry.kind == "evaluate":
            run = runs[body["run"]]
            runs[run.run_id] = replace(run, evaluated=(*run.evaluated, body["protocol"]))
    return tuple(runs.values())


def _find(runs: Sequence[BookRun], run_id: str, dataset: str) -> BookRun:
    for run in runs:
        if run.run_id == run_id:
            return run
    raise UserError(f"run {run_id!r} is not in the account book of {dataset!r}.")


def _told(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items()) or "no facts"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _fingerprint(key: bytes) -> str:
    return hashlib.sha256(b"understudy split key" + key).hexdigest()[:16]
