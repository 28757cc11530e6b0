"""Rules: settings for data that no preset was made for, from declared facts and a time.

A method's rules live in `rules/<name>.yaml` beside its module (or one package up). The file is a
list; each entry has `tuned_on`, and may have `when`, `settings`, `shares`, `rungs` and `stretch`.
Every entry whose `when` holds is laid upon those before it, and the words of all of them go into
the claim: a run on a dataset that they name was tuned on itself. `when` compares what is declared
(see `Measures`) with a value, or with two ends of which the first belongs to it. `shares` are
settings that are a share of the units to learn from, at least and at most so many. `rungs` are
settings from the cheapest to the dearest: a run takes the dearest that fits into its time, and then
makes the loop that `stretch` names longer, up to `most` times, while there is time left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from typing import Any, TypeVar

from understudy.errors import UserError, did_you_mean
from understudy.methods.config import build_config
from understudy.methods.contract import Facts, Method
from understudy.methods.method_files import method_file, read_entries

_KEYS = ("when", "tuned_on", "settings", "shares", "rungs", "stretch")
_FORMS: Mapping[str, type] = {
    "when": dict,
    "settings": dict,
    "shares": dict,
    "rungs": list,
    "stretch": dict,
}
_NO_BUDGET = 1e9

_Made = TypeVar("_Made", "Share", "Stretch")


@dataclass(frozen=True)
class Measures:
    """What a rule may ask of a run, all of it declared.

    side: pixels of the longer side. units: to learn from. per_class: of these, in each class if
    classes were equally frequent. epsilon: very large where there is none.
    """

    channels: float
    side: float
    classes: float
    units: float
    per_class: float
    epsilon: float

    @staticmethod
    def of(facts: Facts, epsilon: float | None) -> Measures:
        units = sum(facts.counts.values())
        return Measures(
            channels=facts.shape[0],
            side=max(facts.shape[1:], default=1),
            classes=facts.classes,
            units=units,
            per_class=units / max(1, facts.classes),
            epsilon=_NO_BUDGET if epsilon is None else epsilon,
        )

    def meet(self, when: Mapping[str, Any]) -> bool:
        return all(_lies(getattr(self, name), wanted) for name, wanted in when.items())


@dataclass(frozen=True)
class Share:
    """A setting as a share of the units to learn from."""

    of_units: float
    least: int = 1
    most: int = 2**31

    def of(self, units: int) -> int:
        return min(units, max(self.least, min(self.most, round(self.of_units * units))))


@dataclass(frozen=True)
class Stretch:
    """The setting that counts the rounds of a loop, and how many times as many there may be."""

    setting: str
    most: float = 1.0


@dataclass(frozen=True)
class Rule:
    """Settings for some declared facts, and how they grow with the time there is."""

    tuned_on: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    shares: Mapping[str, Share] = field(default_factory=dict)
    rungs: tuple[Mapping[str, Any], ...] = ({},)
    stretch: Stretch | None = None

    def config(
        self, method: Method, facts: Facts, rung: int, changes: Mapping[str, Any] | None = None
    ) -> Any:
        """The Config at one rung, with changes by hand on top."""
        units = sum(facts.counts.values())
        shares = {name: share.of(units) for name, share in self.shares.items()}
        chosen = {**self.settings, **shares, **self.rungs[rung], **(changes or {})}
        return build_config(method.Config, chosen)


def find_rule(method: Method, facts: Facts, epsilon: float | None) -> Rule | None:
    """What the method's rules say for these facts; None where it has none for them."""
    file = method_file(method, "rules")
    return None if file is None else read_rule(file, Measures.of(facts, epsilon))


def read_rule(file: Traversable, measures: Measures) -> Rule | None:
    """The entries that hold, laid upon each other; what is wrong in the file is named."""
    entries = [_checked(file.name, entry) for entry in read_entries(file, "rule")]
    held = [entry for entry in entries if measures.meet(entry.get("when", {}))]
    if not held:
        return None
    stretch = _last(held, "stretch")
    return Rule(
        tuned_on="; ".join(dict.fromkeys(str(entry["tuned_on"]) for entry in held)),
        settings=_laid(held, "settings"),
        shares={
            name: _made(file.name, "a share", Share, share)
            for name, share in _laid(held, "shares").items()
        },
        rungs=tuple(_last(held, "rungs") or [{}]),
        stretch=_made(file.name, "stretch", Stretch, stretch) if stretch else None,
    )


def _checked(file_name: str, entry: Any) -> Mapping[str, Any]:
    if not isinstance(entry, dict) or not entry.get("tuned_on"):
        raise UserError(f"rule file {file_name}: a rule is a mapping that says `tuned_on`.")
    for key, form in _FORMS.items():
        if not isinstance(entry.get(key, form()), form):
            raise UserError(f"rule file {file_name}: {key!r} must be a {form.__name__}.")
    when = entry.get("when", {})
    known = {"a key": _KEYS, "a condition": tuple(Measures.__dataclass_fields__)}
    for kind, given in (("a key", entry), ("a condition", when)):
        for key in given:
            if key not in known[kind]:
                hint = did_you_mean(str(key), known[kind])
                raise UserError(f"rule file {file_name}: {key!r} is not {kind}; {hint}")
    for key, wanted in when.items():
        if not _is_condition(wanted):
            raise UserError(f"rule file {file_name}: {key!r} takes a value or two ends.")
    if not all(isinstance(rung, dict) for rung in entry.get("rungs", [{}])):
        raise UserError(f"rule file {file_name}: a rung holds settings by name.")
    return entry


def _is_condition(wanted: Any) -> bool:
    """A number, or two ends of which each may be open."""
    if isinstance(wanted, list):
        return len(wanted) == 2 and all(end is None or _is_number(end) for end in wanted)
    return _is_number(wanted)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _made(file_name: str, what: str, form: type[_Made], given: Any) -> _Made:
    takes = tuple(form.__dataclass_fields__)
    held = given if isinstance(given, Mapping) else {}
    numbers = (value for key, value in held.items() if key != "setting")
    if not set(held) <= set(takes) or takes[0] not in held or not all(map(_is_number, numbers)):
        raise UserError(f"rule file {file_name}: {what} takes {', '.join(takes)}, not {given!r}.")
    return form(**held)


def _laid(entries: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any]:
    laid: dict[str, Any] = {}
    for entry in entries:
        laid.update(entry.get(key, {}))
    return laid


def _last(entries: Sequence[Mapping[str, Any]], key: str) -> Any:
    return next((entry[key] for entry in reversed(entries) if key in entry), None)


def _lies(value: float, wanted: Any) -> bool:
    if isinstance(wanted, list):
        low, high = wanted
        return bool((low or 0) <= value < (math.inf if high is None else high))
    return bool(value == wanted)
