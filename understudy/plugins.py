"""Things found by name without importing them: built in, or shipped by an installed package.

What is built in is listed in a data file; a third party adds its own through an entry point
group. A name is taken once and never replaced.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

from understudy.errors import UserError, did_you_mean

BUILT_IN = "understudy"

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class Plugin:
    """Where something lives: `target` is `package.module:Class`, `source` who ships it."""

    noun: ClassVar[str] = "plugin"
    like: ClassVar[str] = "two-words"
    """What it is called in errors, and a right name."""

    name: str
    target: str
    source: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UserError(
                f"{self.noun} name {self.name!r} (from {self.source}) must be lower-case words, "
                f"digits and hyphens, like {self.like}."
            )
        if not is_target(self.target):
            raise UserError(
                f"{self.noun} {self.name!r} (from {self.source}) points to {self.target!r}; "
                "write package.module:Class."
            )


P = TypeVar("P", bound=Plugin)
Make = Callable[[str, str, str], P]


class Names(Generic[P]):
    """Names and where they live. A name is taken once and never replaced."""

    noun: ClassVar[str] = Plugin.noun

    def __init__(self, entries: Iterable[P] = ()) -> None:
        self._entries: dict[str, P] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: P) -> None:
        taken = self._entries.get(entry.name)
        if taken == entry:
            return  # one package can be visible twice on the path
        if taken is not None:
            own = taken.source == BUILT_IN
            who = f"a built-in {entry.noun}" if own else f"one of {taken.source}"
            raise UserError(
                f"{entry.noun} {entry.name!r} of {entry.source} has the same name as {who} "
                f"({taken.target}); it must be renamed by its author, or uninstalled."
            )
        self._entries[entry.name] = entry

    def __iter__(self) -> Iterator[P]:
        return iter(sorted(self._entries.values(), key=lambda entry: entry.name))

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._entries))

    def entry(self, name: str) -> P:
        if name not in self._entries:
            raise UserError(f"no {self.noun} {name!r}; {did_you_mean(name, self._entries)}")
        return self._entries[name]


def built_in(make: Make[P], targets: Mapping[str, str]) -> Iterator[P]:
    """Entries of a list of ours: name, then where it lives."""
    for name, target in targets.items():
        yield make(name, target, BUILT_IN)


def installed(make: Make[P], group: str) -> Iterator[P]:
    """Entries of installed packages; nothing of theirs is imported."""
    for point in entry_points(group=group):
        yield make(point.name, point.value.replace(" ", ""), _distribution(point))


def is_target(text: str) -> bool:
    return bool(_TARGET.fullmatch(text))


def import_for(name: str, what: str) -> ModuleType:
    """A module, or one sentence that says for what it was wanted."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(f"cannot import {name!r} for {what}: {error}.") from error


def class_in(module: ModuleType, name: str) -> type[Any]:
    found = getattr(module, name, None)
    if not isinstance(found, type):
        own = [n for n, v in vars(module).items() if isinstance(v, type)]
        raise UserError(
            f"module {module.__name__!r} has no class {name!r}; {did_you_mean(name, own)}"
        )
    return found


def _distribution(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist is not None else "an installed package"
