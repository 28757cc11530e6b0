"""Mechanisms by their kind, without importing them.

Built-in mechanisms are listed in `builtin.json`; another package adds its own through the entry
point group `understudy.mechanisms`, under the mechanism's kind.
"""

from __future__ import annotations

import importlib.resources
import json
import sys
from collections.abc import Mapping
from dataclasses import fields
from functools import cache, lru_cache
from typing import cast

from understudy.errors import PrivacyError, UserError, did_you_mean
from understudy.plugins import BUILT_IN, Names, Plugin, built_in, class_in, import_for, installed
from understudy.privacy.plan.events import KNOWN_EVENTS, Event
from understudy.privacy.plan.mechanisms.mechanism import Mechanism

GROUP = "understudy.mechanisms"

RESERVED = ("kind", "planned_uses", "events", "shipped_by")
"""What a plan writes beside the fields of a mechanism, which so can have none of these names."""


class MechanismEntry(Plugin):
    """Where a mechanism lives: its name is its kind, `source` who ships it."""

    noun = "mechanism"
    like = "noisy-sum"


class MechanismRegistry(Names[MechanismEntry]):
    """Kinds of mechanisms and where they live. A kind is taken once and never replaced."""

    noun = MechanismEntry.noun

    @staticmethod
    def discover() -> MechanismRegistry:
        """The built-in mechanisms, then those of installed packages."""
        own = built_in(MechanismEntry, _listed())
        return MechanismRegistry([*own, *installed(MechanismEntry, GROUP)])


def mechanism_kinds() -> tuple[str, ...]:
    """The kinds of the built-in mechanisms."""
    return tuple(_listed())


def mechanism_entry(kind: object) -> MechanismEntry | None:
    """Where a kind lives, or None where no package here has it.

    What a package installs can hide no built-in mechanism: those are not looked for in packages.
    """
    if not isinstance(kind, str):
        return None
    if kind in _listed():
        return MechanismEntry(kind, _listed()[kind], BUILT_IN)
    known = _discovered(tuple(sys.path))
    return known.entry(kind) if kind in known else None


def mechanism_class(kind: str) -> type[Mechanism]:
    """The class of a kind, imported now; an unknown kind is answered with near ones."""
    entry = mechanism_entry(kind)
    if entry is None:
        known = _discovered(tuple(sys.path)).names()
        raise UserError(f"no mechanism {kind!r}; {did_you_mean(kind, known)}")
    return load_mechanism(entry)


def load_mechanism(entry: MechanismEntry) -> type[Mechanism]:
    """The class that an entry points to, if it can be a mechanism of that kind."""
    place, _, name = entry.target.partition(":")
    found = class_in(import_for(place, f"mechanism {entry.name!r}"), name)
    where = f"mechanism {entry.name!r} of {entry.source}"
    own = vars(found).get("__dataclass_params__")  # what it inherits says nothing of its fields
    if not (issubclass(found, Mechanism) and own is not None and own.frozen):
        raise UserError(f"{where} must be a frozen dataclass derived from Mechanism.")
    if getattr(found, "kind", None) != entry.name:
        raise UserError(f"{where} calls itself {getattr(found, 'kind', None)!r}; give it one name.")
    named = [field.name for field in fields(found)]  # type: ignore[arg-type]
    if {"name", "part"} - set(named) or set(RESERVED) & set(named):
        raise UserError(f"{where} needs fields name and part, and none of {', '.join(RESERVED)}.")
    lacking = sorted(getattr(found, "__abstractmethods__", ()))
    lacking += [word for word in ("title", "probe") if not hasattr(found, word)]
    if lacking:
        raise UserError(f"{where} lacks {', '.join(lacking)}.")
    return found


def entry_of(mechanism: Mechanism) -> MechanismEntry:
    """Where a mechanism's own class is registered.

    Guarantee: a class that is not registered under its kind is refused, a subclass of a registered
    one too: whoever reads the plan would take it for the other, whose events it may not have.
    """
    entry = mechanism_entry(mechanism.kind)
    if entry is None or load_mechanism(entry) is not type(mechanism):
        raise PrivacyError(
            f"{mechanism.name!r} is a {type(mechanism).__name__}, which is not the mechanism "
            f"registered as {mechanism.kind!r}; name it in the entry point group {GROUP}."
        )
    return entry


def check_costs(mechanism: Mechanism) -> None:
    """Refuse a mechanism whose planned uses cost nothing, or what no accountant knows."""
    events = mechanism.events(mechanism.uses)
    known = all(isinstance(event, KNOWN_EVENTS) for event in events)
    if not known or all(map(_is_free, events)):  # no events are free too
        raise PrivacyError(
            f"{mechanism.name!r} states no events that have a price; build them from those of "
            "understudy.privacy.plan.events."
        )
    if mechanism.events(0):
        raise PrivacyError(f"{mechanism.name!r} states events for no use at all.")


def _is_free(event: Event) -> bool:
    """Whether it never happens: no release, or of a sample that nobody joins."""
    return 0 in (getattr(event, "count", 1), getattr(event, "rate", 1))


@lru_cache(maxsize=4)
def _discovered(path: tuple[str, ...]) -> MechanismRegistry:
    """Packages are looked for once on an import path: every plan that is read asks."""
    del path
    return MechanismRegistry.discover()


@cache
def _listed() -> Mapping[str, str]:
    """JSON, because a machine that only fits has no reader of YAML."""
    text = importlib.resources.files(__package__).joinpath("builtin.json").read_text()
    return cast(Mapping[str, str], json.loads(text))
