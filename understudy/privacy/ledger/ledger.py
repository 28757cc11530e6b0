"""The ledger: what was planned and what was done to private records, line by line.

Append-only, hash-chained, flushed to the disk before the work it announces. A ledger
proves consistency (nothing was dropped, swapped or edited since its head was known),
not honesty: see `docs/claims.md`. It holds no times and nothing measured on records.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from understudy.durable import append_durably, replace_durably, truncate_durably
from understudy.errors import PrivacyError, UserError
from understudy.privacy.plan.events import Event
from understudy.privacy.plan.plan import Plan

FIRST_PREVIOUS = "0" * 64
_PLAN_ENTRY = frozenset({"plan", "run"})
_BODIES = {
    "reserve": {"block", "mechanism", "uses"},
    "commit": {"block", "mechanism", "uses"},
    "void": {"block"},
    "close": set[str](),
    "fail": set[str](),
}
"""All that an entry may say after the plan: no times, nothing measured."""


@dataclass(frozen=True)
class Entry:
    """One line. `hash` covers everything else, `previous` chains it to the line before."""

    index: int
    kind: str
    body: Mapping[str, Any]
    previous: str
    hash: str

    def line(self) -> bytes:
        return canonical({**self.content(), "hash": self.hash}) + b"\n"

    def content(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "kind": self.kind,
            "body": dict(self.body),
            "previous": self.previous,
        }


def canonical(value: Any) -> bytes:
    """The one way in which a value is written: sorted keys, no spaces, ASCII, finite."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode("ascii")


def next_entry(entries: Sequence[Entry], kind: str, body: Mapping[str, Any]) -> Entry:
    previous = entries[-1].hash if entries else FIRST_PREVIOUS
    unsealed = Entry(len(entries), kind, dict(body), previous, hash="")
    return replace(unsealed, hash=hashlib.sha256(canonical(unsealed.content())).hexdigest())


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
        entries.append(_parse_line(line, entries, f"ledger {path.name}, line {number}"))
    check_story(entries)
    return tuple(entries)


def _parse_line(line: bytes, before: Sequence[Entry], place: str) -> Entry:
    try:
        data = json.loads(line)
        entry = next_entry(before, data["kind"], data["body"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{place}: not a ledger entry.") from error
    if entry.line() != line:
        raise UserError(f"{place}: does not follow from the line before (edited, moved or lost).")
    return entry


def check_story(entries: Sequence[Entry]) -> None:
    """Refuse a ledger whose entries cannot have happened in this order.

    One plan, first; blocks numbered from 0, each reserved, then committed or voided
    before the next; uses never beyond the plan; nothing after `close`.
    """
    if not entries or entries[0].kind != "plan":
        raise UserError("the ledger does not begin with a plan.")
    _check_fields_of_plan_entry(entries[0].body)
    story = _Story(ledger_plan(entries))
    for entry in entries[1:]:
        story.take(entry)


def _check_fields_of_plan_entry(body: Any) -> None:
    """A field that is not known here may change what the others mean, so it is not skipped."""
    unknown = sorted(set(body) - _PLAN_ENTRY) if isinstance(body, Mapping) else []
    if unknown:
        raise UserError(
            f"ledger line 1: this version does not know the field {unknown[0]!r} of a plan entry; "
            "use the version that wrote it."
        )


class _Story:
    """What a ledger has told so far; `take` refuses an entry that cannot come next."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._spent = {m.name: 0 for m in plan.mechanisms}
        self._open: Mapping[str, Any] | None = None
        self._blocks = 0
        self._closed = False

    def take(self, entry: Entry) -> None:
        place = f"ledger line {entry.index + 1}"
        if self._closed:
            raise UserError(f"{place}: comes after the ledger was closed.")
        if not isinstance(entry.kind, str) or entry.kind not in _BODIES:
            raise UserError(f"{place}: a {entry.kind!r} entry cannot stand here.")
        if set(entry.body) != _BODIES[entry.kind]:
            raise UserError(f"{place}: a {entry.kind} says more or less than it may.")
        takers = {
            "reserve": self._reserve,
            "commit": self._commit,
            "void": self._void,
            "close": self._close,
            "fail": self._fail,
        }
        takers[entry.kind](entry.body, place)

    def _reserve(self, body: Mapping[str, Any], place: str) -> None:
        block, name, uses = body["block"], body["mechanism"], body["uses"]
        if self._open is not None or type(block) is not int or block != self._blocks:
            raise UserError(f"{place}: block {block!r} is out of order.")
        if not isinstance(name, str) or name not in self._spent:
            raise UserError(f"{place}: the plan has no mechanism {name!r}.")
        if not _is_count(uses) or self._spent[name] + uses > self._plan.mechanism(name).uses:
            raise UserError(f"{place}: {name} would be used beyond its plan.")
        self._open, self._blocks = body, self._blocks + 1

    def _commit(self, body: Mapping[str, Any], place: str) -> None:
        reserved = self._settle(body, place)
        if body["mechanism"] != reserved["mechanism"]:
            raise UserError(f"{place}: commits another mechanism than was reserved.")
        if not _is_count(body["uses"]) or body["uses"] > reserved["uses"]:
            raise UserError(f"{place}: commits more uses than were reserved.")
        self._spent[body["mechanism"]] += body["uses"]

    def _void(self, body: Mapping[str, Any], place: str) -> None:
        self._settle(body, place)

    def _settle(self, body: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        reserved = self._open
        block = body["block"]
        if reserved is None or type(block) is not int or block != reserved["block"]:
            raise UserError(f"{place}: settles a block that is not open.")
        self._open = None
        return reserved

    def _fail(self, body: Mapping[str, Any], place: str) -> None:
        del body, place
        self._closed = True

    def _close(self, body: Mapping[str, Any], place: str) -> None:
        del body
        if self._open is not None:
            raise UserError(f"{place}: closed while a block was open.")
        self._closed = True


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def ledger_plan(entries: Sequence[Entry]) -> Plan:
    try:
        return Plan.from_json(entries[0].body["plan"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError("the ledger's plan cannot be read.") from error


def spent_uses(entries: Sequence[Entry]) -> dict[str, int]:
    """Uses per mechanism: committed ones, and a reserved block that was never settled."""
    spent: dict[str, int] = {}
    pending: Mapping[str, Any] | None = None
    for entry in entries:
        if entry.kind == "reserve":
            pending = entry.body
        elif entry.kind == "void":
            pending = None
        elif entry.kind == "commit":
            spent[entry.body["mechanism"]] = (
                spent.get(entry.body["mechanism"], 0) + entry.body["uses"]
            )
            pending = None
    if pending is not None:
        spent[pending["mechanism"]] = spent.get(pending["mechanism"], 0) + pending["uses"]
    return spent


def spent_events(entries: Sequence[Entry]) -> tuple[Event, ...]:
    """The events that happened: what a ledger costs."""
    plan = ledger_plan(entries)
    uses = spent_uses(entries)
    return tuple(e for m in plan.mechanisms for e in m.events(uses.get(m.name, 0)))


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
    def open_block(self) -> Entry | None:
        """The reserve entry of a block that is neither committed nor void."""
        last = self._entries[-1]
        return last if last.kind == "reserve" else None

    @property
    def in_doubt(self) -> bool:
        """Whether a write was cut short, so that only opening the ledger again can tell."""
        return self._in_doubt

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

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
