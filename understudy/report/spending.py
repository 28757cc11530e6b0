"""The ledger as a reader follows it: what was attempted, in order, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from understudy.errors import UserError
from understudy.privacy.plan.mechanisms import mechanism_class, mechanism_from_json
from understudy.privacy.plan.plan import number_from_json

Status = Literal["committed", "void", "open"]


@dataclass(frozen=True)
class Attempt:
    """One block of work: reserved, then committed or void; `open` counts as spent."""

    mechanism: str
    uses: int
    status: Status


@dataclass(frozen=True)
class MechanismRow:
    """One planned mechanism: its uses, its noise, and its cost had it run alone.

    `share` divides the costs alone; the composed cost is not their sum.
    """

    name: str
    sentence: str | None
    kind_words: str
    use_word: str
    planned: int
    spent: int
    voids: int
    sigma: float | None
    epsilon_alone: float | None
    share: float | None

    @property
    def use_words(self) -> str:
        return plural(self.use_word, self.planned)

    @property
    def uses_words(self) -> str:
        return f"{self.spent:,} of {self.planned:,} {self.use_words}"


@dataclass(frozen=True)
class Spending:
    """Plan and ledger side by side."""

    rows: tuple[MechanismRow, ...]
    attempts: tuple[Attempt, ...]
    budget: float | None
    closed: bool
    disagreements: tuple[str, ...]

    @property
    def voids(self) -> int:
        return sum(a.status == "void" for a in self.attempts)

    @property
    def unfinished(self) -> int:
        return sum(a.status == "open" for a in self.attempts)

    @property
    def unlimited(self) -> frozenset[str]:
        """Mechanisms that no finite epsilon covers."""
        costs = ((row.name, row.epsilon_alone) for row in self.rows)
        return frozenset(name for name, cost in costs if cost == math.inf)

    @property
    def stopped_early(self) -> bool:
        return any(r.spent < r.planned for r in self.rows)


def plural(word: str, count: int) -> str:
    if count == 1:
        return word
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def spending(claim: Mapping[str, Any], ledger: Sequence[Mapping[str, Any]]) -> Spending:
    """What the claim says was spent, with the ledger's own account of it."""
    attempts = _attempts(ledger)
    return Spending(
        rows=_rows(claim["spending"], attempts, _sentences(ledger)),
        attempts=attempts,
        budget=_budget(ledger),
        closed=any(e.get("kind") == "close" for e in ledger),
        disagreements=_disagreements(claim, ledger, attempts) if ledger else (),
    )


def _attempts(ledger: Sequence[Mapping[str, Any]]) -> tuple[Attempt, ...]:
    attempts: list[Attempt] = []
    latest_of_block: dict[Any, int] = {}
    for entry in ledger:
        body, kind = entry.get("body") or {}, entry.get("kind")
        if kind == "reserve":
            latest_of_block[body.get("block")] = len(attempts)
            attempts.append(Attempt(str(body.get("mechanism")), int(body.get("uses", 0)), "open"))
        elif kind in ("commit", "void") and body.get("block") in latest_of_block:
            position = latest_of_block[body.get("block")]
            reserved = attempts[position]
            attempts[position] = (
                Attempt(reserved.mechanism, int(body.get("uses", reserved.uses)), "committed")
                if kind == "commit"
                else Attempt(reserved.mechanism, reserved.uses, "void")
            )
    return tuple(attempts)


def _rows(
    spent: Sequence[Mapping[str, Any]],
    attempts: Sequence[Attempt],
    sentences: Mapping[str, str],
) -> tuple[MechanismRow, ...]:
    alone = [_maybe_number(item.get("epsilon_alone")) for item in spent]
    shares = _shares(alone)
    rows = []
    for item, cost, share in zip(spent, alone, shares, strict=True):
        name, kind = str(item.get("name")), str(item.get("kind"))
        kind_words, use_word = _words_of(kind)
        rows.append(
            MechanismRow(
                name=name,
                sentence=sentences.get(name),
                kind_words=kind_words,
                use_word=use_word,
                planned=int(item.get("planned") or 0),
                spent=int(item.get("spent") or 0),
                voids=sum(a.status == "void" and a.mechanism == name for a in attempts),
                sigma=_maybe_number(item.get("sigma")),
                epsilon_alone=cost,
                share=share,
            )
        )
    return tuple(rows)


def _words_of(kind: str) -> tuple[str, str]:
    """What a mechanism of this kind and one use of it are called; the kind, if it is not known."""
    try:
        found = mechanism_class(kind)
    except UserError:
        return kind, "use"
    return found.title, found.use_word


def _sentences(ledger: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What each planned mechanism does, in its own words; none for what cannot be read."""
    found = {}
    for written in _plan(ledger).get("mechanisms") or ():
        with suppress(UserError, TypeError):
            mechanism = mechanism_from_json(written)
            found[mechanism.name] = mechanism.words()
    return found


def _plan(ledger: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    for entry in ledger:
        if entry.get("kind") == "plan":
            return (entry.get("body") or {}).get("plan") or {}
    return {}


def _shares(alone: Sequence[float | None]) -> list[float | None]:
    """Each cost over the sum of all; none where a cost is unknown or has no limit."""
    known = [cost for cost in alone if cost is not None and math.isfinite(cost)]
    total = sum(known)
    if len(known) < len(alone) or total <= 0:
        return [None] * len(alone)
    return [cost / total for cost in known]


def _budget(ledger: Sequence[Mapping[str, Any]]) -> float | None:
    return _maybe_number((_plan(ledger).get("budget") or {}).get("epsilon"))


def _disagreements(
    claim: Mapping[str, Any],
    ledger: Sequence[Mapping[str, Any]],
    attempts: Sequence[Attempt],
) -> tuple[str, ...]:
    """Where the claim and the ledger beside it differ; a sound pair gives none."""
    found = []
    stated = claim.get("ledger") or {}
    if stated.get("length") not in (None, len(ledger)):
        found.append(f"the claim counts {stated['length']} ledger lines, here are {len(ledger)}")
    if stated.get("head") not in (None, ledger[-1].get("hash")):
        found.append("the claim names another last line of the ledger")
    for item in claim["spending"]:
        recorded = sum(
            a.uses for a in attempts if a.mechanism == item.get("name") and a.status != "void"
        )
        if recorded != int(item.get("spent") or 0):
            found.append(
                f"{item.get('name')}: the claim says {item.get('spent')} uses were spent, "
                f"the ledger {recorded}"
            )
    return tuple(found)


def _maybe_number(value: object) -> float | None:
    return number_from_json(value) if isinstance(value, int | float | str) else None
