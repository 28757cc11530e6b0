"""Finding methods by name, without importing them.

Built-in methods are listed in `builtin.yaml`; a third party adds its own through the
entry point group `understudy.methods`. Listing names imports no method and no torch;
a method's module is imported only when that method is asked for.
"""

from __future__ import annotations

import importlib
import importlib.resources
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

import yaml

from understudy.errors import UserError, did_you_mean
from understudy.methods.contract import Method, MethodInfo

GROUP = "understudy.methods"
BUILT_IN = "understudy"

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class MethodEntry:
    """Where a method lives: `target` is `package.module:Class`, `source` who ships it."""

    name: str
    target: str
    source: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UserError(
                f"method name {self.name!r} (from {self.source}) must be lower-case words, "
                "digits and hyphens, like dp-merf."
            )
        if not _TARGET.fullmatch(self.target):
            raise UserError(
                f"method {self.name!r} (from {self.source}) points to {self.target!r}; "
                "write package.module:Class."
            )


class Registry:
    """Names and where they live. A name is taken once and never replaced."""

    def __init__(self, entries: Iterable[MethodEntry] = ()) -> None:
        self._entries: dict[str, MethodEntry] = {}
        for entry in entries:
            self.add(entry)

    @staticmethod
    def discover() -> Registry:
        """The built-in methods, then those of installed packages."""
        return Registry([*_built_in(), *_installed()])

    def add(self, entry: MethodEntry) -> None:
        taken = self._entries.get(entry.name)
        if taken == entry:
            return  # one package can be visible twice on the path
        if taken is not None:
            who = "a built-in method" if taken.source == BUILT_IN else f"one of {taken.source}"
            raise UserError(
                f"method {entry.name!r} of {entry.source} has the same name as {who} "
                f"({taken.target}); it must be renamed by its author, or uninstalled."
            )
        self._entries[entry.name] = entry

    def __iter__(self) -> Iterator[MethodEntry]:
        return iter(sorted(self._entries.values(), key=lambda entry: entry.name))

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._entries))

    def entry(self, name: str) -> MethodEntry:
        if name not in self._entries:
            raise UserError(f"no method {name!r}; {did_you_mean(name, self._entries)}")
        return self._entries[name]

    def get(self, name: str) -> Method:
        """The method itself; this is what imports it."""
        entry = self.entry(name)
        method = load_method(entry.target)
        if method.info.name != name:
            raise UserError(
                f"method {name!r} of {entry.source} calls itself {method.info.name!r}; "
                "info.name and the registered name must be the same."
            )
        return method


def method_names() -> tuple[str, ...]:
    """Names of every built-in and installed method.

    >>> "dp-merf" in method_names()
    True
    """
    return Registry.discover().names()


def get_method(name: str) -> Method:
    """The method of this name; an unknown name is answered with the nearest ones."""
    return Registry.discover().get(name)


def load_method(target: str) -> Method:
    """A method by where it lives, `package.module:Class`, registered or not."""
    if not _TARGET.fullmatch(target):
        raise UserError(f"cannot read {target!r} as a method; write package.module:Class.")
    module_name, class_name = target.split(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UserError(f"cannot import {module_name!r} for method {target!r}: {error}.") from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        classes = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise UserError(
            f"module {module_name!r} has no class {class_name!r}; "
            f"{did_you_mean(class_name, classes)}"
        )
    _check_shape(target, found)
    return cast(Method, found())


def _check_shape(target: str, found: type[Any]) -> None:
    """Refuse at the door what cannot be a method; `check-method` tests the rest."""
    if not isinstance(getattr(found, "info", None), MethodInfo):
        raise UserError(f"{target} is not a method: it needs `info`, a MethodInfo.")
    config = getattr(found, "Config", None)
    frozen = getattr(getattr(config, "__dataclass_params__", None), "frozen", False)
    if not (isinstance(config, type) and is_dataclass(config) and frozen):
        raise UserError(f"{target} is not a method: it needs `Config`, a frozen dataclass.")
    for operation in ("spend", "fit"):
        if not callable(getattr(found, operation, None)):
            raise UserError(f"{target} is not a method: it needs `{operation}`.")


def _built_in() -> Iterator[MethodEntry]:
    text = importlib.resources.files("understudy.methods").joinpath("builtin.yaml").read_text()
    for name, target in yaml.safe_load(text).items():
        yield MethodEntry(name, target, BUILT_IN)


def _installed() -> Iterator[MethodEntry]:
    for point in entry_points(group=GROUP):
        yield MethodEntry(point.name, point.value.replace(" ", ""), _distribution(point))


def _distribution(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist is not None else "an installed package"
