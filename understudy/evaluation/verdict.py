"""The verdict on a stand-in, in words: from figures and declared facts to sentences.

A pure function. Its figures are those of an evaluation, so its words are the owner's too: they
stand on the console and in the owner's report, never in a release or the shareable report, and
nothing that is released is decided by them (rule 10).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from understudy.evaluation.metric import ClassRecall, Row

BALANCED = "gen2real balanced accuracy"

NEARLY_ALL = 0.9
HALF = 0.5
"""Shares of the gain over chance from which a stand-in is called good, and fair."""

LEAST_REAL_GAIN = 0.1
"""Where real records gain less over guessing, the task cannot tell stand-ins apart."""

ENOUGH_PER_CLASS = 1000
"""Units of a class below which they are called few, by a rule of thumb: 2,870 scans of four
classes, some 600 a class, gave stand-ins at chance at epsilon 10; 6,000 a class do not."""

SMALL_BUDGET = 3.0
"""Epsilon below which the budget is named as the limit, where units are not few."""

_MOST_NAMED = 6


@dataclass(frozen=True)
class VerdictFacts:
    """What a verdict on an owner's run may use beside figures: declared, or of the account book.

    epsilon: None for an empirical run. count: declared units to learn from, each what `unit` says
        (None: an image). now, after: the book's total, and with one more run of this budget.
    """

    run: str
    dataset: str
    epsilon: float | None
    delta: float
    count: int
    unit: str | None
    now: float
    after: float


@dataclass(frozen=True)
class Kept:
    """How much of what real records teach is kept, by one classifier.

    share: of the gain over chance; None where the real reference is missing, or no better than
        chance.
    """

    row: Row
    value: float
    chance: float
    reference: float | None

    @property
    def share(self) -> float | None:
        if self.reference is None or self.reference <= self.chance:
            return None
        gain = (self.value - self.chance) / (self.reference - self.chance)
        return round(gain, 9)  # so that 0.9 of it is 0.9

    @property
    def is_guessing(self) -> bool:
        """Whether guessing lies within the interval or above it."""
        return self.row.low is None or self.row.low <= self.chance

    @property
    def real_is_near_chance(self) -> bool:
        return self.reference is not None and self.reference - self.chance < LEAST_REAL_GAIN

    @property
    def collapsed(self) -> tuple[ClassRecall, ...]:
        """Classes never recognised, although real records teach them (or where that is unknown)."""
        return tuple(c for c in self.row.classes if c.recall == 0 and c.reference != 0)


def verdict(
    rows: Sequence[Row],
    tested_on: str,
    facts: VerdictFacts | None = None,
    *,
    held_out: bool = False,
) -> tuple[str, ...]:
    """Sentences for the owner, from the rows of one evaluation.

    tested_on: what the real test records are, in words. held_out: whether they are the run's own.
    facts: of the run, where the owner evaluates one; without them limits and costs are not known.
    """
    found = judged(rows)
    if found is None:
        return (_say("none", {"why": _why_none(rows)}),)
    said = [_judgement(found, tested_on), *_kept(found)]
    if found.collapsed:
        said.append(_say("collapse", {"classes": _names(found.collapsed)}))
    if facts is None:
        return tuple(said)
    if held_out and facts.unit is None:
        said.append(_say("flatters", {"run": facts.run}))
    return (*said, *_what_now(found, facts))


def judged(rows: Sequence[Row]) -> Kept | None:
    """By the classifier that learns most from real records; the synthetic figure does not choose.

    Where no real figure is known, by the first of the protocol.
    """
    usable = [kept for kept in map(_kept_of, rows) if kept is not None]
    return max(usable, key=lambda kept: kept.reference or 0.0) if usable else None


def _kept_of(row: Row) -> Kept | None:
    if row.metric != BALANCED or row.value is None or row.chance is None:
        return None
    return Kept(row, row.value, row.chance, row.reference)


def _why_none(rows: Sequence[Row]) -> str:
    failed = next((row.reason for row in rows if row.metric == BALANCED and row.reason), None)
    return failed or "this protocol trains no classifier on the stand-in (the standard one does)"


def _judgement(found: Kept, tested_on: str) -> str:
    words = {
        "classifier": found.row.variant,
        "value": _two(found.value),
        "chance": _two(found.chance),
        "reference": _two(found.reference),
        "tested_on": tested_on,
    }
    return _say("only_value" if found.reference is None else "judged", words)


def _kept(found: Kept) -> list[str]:
    share = found.share
    if found.is_guessing:
        wide = found.value > found.chance and (share or 0.0) >= HALF
        interval = {"low": _two(found.row.low), "high": _two(found.row.high)}
        return [_say("kept.nothing"), *([_say("kept.unclear", interval)] if wide else [])]
    if share is None:
        return []
    step = "most" if share >= NEARLY_ALL else "half" if share >= HALF else "little"
    return [_say(f"kept.{step}", {"kept": f"{math.floor(100 * share)}%"})]


def _what_now(found: Kept, facts: VerdictFacts) -> list[str]:
    """What limits it, what to try, and what that would cost: only where there is more to want."""
    share = found.share
    if share is not None and share >= NEARLY_ALL and not (found.is_guessing or found.collapsed):
        return [_say("next.good"), _say("choice")]
    limits, words = _limits(found, facts), _limit_figures(found, facts)
    merges = found.collapsed and limits[0] in ("method", "empirical")
    cost = {
        "dataset": facts.dataset,
        "now": _up(facts.now),
        "after": _up(facts.after),
        "delta": f"{facts.delta:g}",
    }
    return [
        *(_say(f"limits.{limit}", words) for limit in limits),
        _say(f"next.{'collapse' if merges else limits[0]}", words),
        _say("cost", cost),
        _say("choice"),
        _say("page"),
    ]


def _limits(found: Kept, facts: VerdictFacts) -> list[str]:
    """What limits it, as far as figures and facts show; the first is what to begin with."""
    if found.real_is_near_chance:
        return ["real"]
    if facts.epsilon is None:
        return ["empirical"]
    few = _per_class(found, facts) < ENOUGH_PER_CLASS
    limits = [*(["few"] if few else []), *(["budget"] if facts.epsilon < SMALL_BUDGET else [])]
    return limits or ["method"]


def _per_class(found: Kept, facts: VerdictFacts) -> int:
    return facts.count // max(1, len(found.row.classes))


def _limit_figures(found: Kept, facts: VerdictFacts) -> dict[str, str]:
    return {
        "reference": "-" if found.reference is None else _two(found.reference),
        "chance": _two(found.chance),
        "units": "images" if facts.unit is None else f"units (each one {facts.unit})",
        "count": f"{facts.count:,}",
        "per_class": f"{_per_class(found, facts):,}",
        "enough": str(ENOUGH_PER_CLASS),
        "epsilon": "-" if facts.epsilon is None else f"{facts.epsilon:.3g}",
    }


def _names(classes: Sequence[ClassRecall]) -> str:
    names = [repr(one.name) for one in classes[:_MOST_NAMED]]
    more = len(classes) - len(names)
    told = ", ".join(names) + (f" and {more} more" if more else "")
    return f"the class {told} is" if len(classes) == 1 else f"the classes {told} are"


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _up(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{math.ceil(epsilon * 100 - 1e-9) / 100:g}"


def _say(place: str, words: Mapping[str, str] | None = None) -> str:
    """The sentence at this place of `verdict.yaml`, filled in."""
    text: Any = _sentences()
    for key in place.split("."):
        text = text[key]
    return str(text).format_map(words or {})


@cache
def _sentences() -> Mapping[str, Any]:
    import yaml  # here: classifiers are trained where there is none

    text = files("understudy.evaluation").joinpath("verdict.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.safe_load(text)
    return found
