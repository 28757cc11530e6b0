"""Entries of a hash chain: the lines of ledgers and of account books."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from understudy.errors import UserError

FIRST_PREVIOUS = "0" * 64


@dataclass(frozen=True)
class Entry:
    """One line. `hash` covers everything else, `previous` chains it to the line before."""

    index: int
    kind: str
    body: Mapping[str, Any]
    previous: str
    hash: str

    def line(self) -> bytes:
        return canonical_json({**self.content(), "hash": self.hash}) + b"\n"

    def content(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "kind": self.kind,
            "body": dict(self.body),
            "previous": self.previous,
        }


def canonical_json(value: Any) -> bytes:
    """The one way in which a value is written: sorted keys, no spaces, ASCII, finite."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode("ascii")


def next_entry(entries: Sequence[Entry], kind: str, body: Mapping[str, Any]) -> Entry:
    previous = entries[-1].hash if entries else FIRST_PREVIOUS
    unsealed = Entry(len(entries), kind, dict(body), previous, hash="")
    return replace(unsealed, hash=hashlib.sha256(canonical_json(unsealed.content())).hexdigest())


def parse_line(line: bytes, before: Sequence[Entry], place: str, remedy: str = "") -> Entry:
    """The entry that a line holds; an error names the place where it does not follow."""
    try:
        data = json.loads(line)
        entry = next_entry(before, data["kind"], data["body"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{place}: not an entry{remedy}.") from error
    if entry.line() != line:
        raise UserError(
            f"{place}: does not follow from the line before (edited, moved or lost){remedy}."
        )
    return entry
