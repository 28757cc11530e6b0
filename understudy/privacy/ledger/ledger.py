"""The owner's ledger: what was planned and what was done to private records, line by line.

Append-only, hash-chained, flushed to the disk before the work it announces. A ledger
proves consistency (nothing was dropped, swapped or edited since its head was known),
not honesty: see `docs/claims.md`. It holds no times and nothing measured on records. Where
work was void, cut short or failed may still tell of a record, so it stays with the owner:
`released.py` makes the one that goes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.durable import append_durably, replace_durably, truncate_durably
from understudy.errors import PrivacyError, UserError
from understudy.privacy.ledger.entries import Entry, next_entry, parse_line
from understudy.privacy.ledger.story import check_story, ledger_plan, spent_uses
from understudy.privacy.plan.plan import Plan


def read_ledger(path: Path) -> tuple[Entry, ...]:
    """Every entry of a ledger whose chain and story hold; else an error naming the line."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the ledger {path.name}: {error.strerror}.") from error
    if content and not content.endswith(b"\n"):
        raise UserError(f"ledger {path.name}: the last line is cut off.")
    entries: list[Entry] = []
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        entries.append(parse_line(line, entries, f"ledger {path.name}, line {number}"))
    check_story(entries)
    return tuple(entries)


class Ledger:
    """A ledger open for writing, by one process at a time."""

    def __init__(self, path: Path, entries: Sequence[Entry]) -> None:
        self._path = path
        self._entries = list(entries)
        self._size = sum(len(entry.line()) for entry in entries)
        self._in_doubt = False

    @classmethod
    def create(cls, path: Path, plan: Plan, run: Mapping[str, Any]) -> Ledger:
        """Start a ledger with its plan; a file that exists is never overwritten."""
        if path.exists():
            raise PrivacyError(f"{path.name} exists already; a plan is single-use.")
        first = next_entry([], "plan", {"plan": plan.to_json(), "run": dict(run)})
        replace_durably(path, first.line())
        return cls(path, [first])

    @classmethod
    def open(cls, path: Path) -> Ledger:
        """Open for more work; a line torn by a crash is dropped: its work never began."""
        drop_torn_line(path)
        return cls(path, read_ledger(path))

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    @property
    def plan(self) -> Plan:
        return ledger_plan(self._entries)

    @property
    def closed(self) -> bool:
        return self._entries[-1].kind == "close"

    @property
    def failed(self) -> bool:
        """Whether a callback failed on private records: nothing may follow."""
        return self._entries[-1].kind == "fail"

    @property
    def open_block(self) -> Entry | None:
        """The reserve entry of a block that is neither committed nor void."""
        last = self._entries[-1]
        return last if last.kind == "reserve" else None

    @property
    def in_doubt(self) -> bool:
        """Whether a write was cut short, so that only opening the ledger again can tell."""
        return self._in_doubt

    def reserve(self, mechanism: str, uses: int) -> Entry:
        """Announce a block of work, before any noise for it is drawn.

        Refuses what the plan does not hold: this is where a run stops overspending.
        """
        if self.closed:
            raise PrivacyError("the run is finished; its plan cannot be used again.")
        if self.open_block is not None:
            raise PrivacyError("a block is still open; commit it first.")
        planned = self.plan.mechanism(mechanism).uses
        spent = spent_uses(self._entries).get(mechanism, 0)
        if uses < 1 or spent + uses > planned:
            raise PrivacyError(
                f"{mechanism} may be used {planned} times, {spent} are spent; "
                f"{uses} more would go beyond the plan."
            )
        block = sum(e.kind == "reserve" for e in self._entries)
        return self.append(
            next_entry(
                self._entries, "reserve", {"block": block, "mechanism": mechanism, "uses": uses}
            )
        )

    def commit_entry(self, uses: int) -> Entry:
        """The commit entry for the open block; not written yet."""
        reserve = self._require_open_block()
        body = {
            "block": reserve.body["block"],
            "mechanism": reserve.body["mechanism"],
            "uses": uses,
        }
        return next_entry(self._entries, "commit", body)

    def void(self) -> Entry:
        """Record that the open block left nothing behind: its process died before commit."""
        block = self._require_open_block().body["block"]
        return self.append(next_entry(self._entries, "void", {"block": block}))

    def fail(self) -> Entry:
        return self.append(next_entry(self._entries, "fail", {}))

    def close(self) -> Entry:
        return self.append(next_entry(self._entries, "close", {}))

    def append(self, entry: Entry) -> Entry:
        """Write one prepared entry and wait for the disk; checks that it follows.

        If that is cut short (full disk, Ctrl-C), nothing more may be written by this
        process: a line behind half a line, or after one that memory does not know of,
        would break the chain. Opening the ledger again settles it.
        """
        self.check(entry)
        self._in_doubt = True
        append_durably(self._path, entry.line(), end=self._size)
        self._size += len(entry.line())
        self._entries.append(entry)
        self._in_doubt = False
        return entry

    def check(self, entry: Entry) -> None:
        """Refuse an entry that cannot be the next one."""
        if self._in_doubt:
            raise PrivacyError("the ledger could not be written; resume the run to settle it.")
        if entry != next_entry(self._entries, entry.kind, entry.body):
            raise PrivacyError("the entry does not follow from the ledger's last line.")
        check_story([*self._entries, entry])

    def _require_open_block(self) -> Entry:
        if self.open_block is None:
            raise PrivacyError("no block is open.")
        return self.open_block


def drop_torn_line(path: Path) -> None:
    """Cut a last line that has no end: it was being written when the process died.

    Never the first: a plan arrives whole, by a rename, so without an end it was edited.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the ledger {path.name}: {error.strerror}.") from error
    whole = content.rfind(b"\n") + 1
    if 0 < whole < len(content):
        truncate_durably(path, whole)
