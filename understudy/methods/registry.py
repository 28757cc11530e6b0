"""Finding methods by name, without importing them.

Built-in methods are listed in `builtin.yaml`; a third party adds its own through the
entry point group `understudy.methods`. Listing names imports no method and no torch;
a method's module is imported only when that method is asked for. A method that is not
registered is called by where it lives: `package.module:Class`, or `file.py:Class`.
"""

from __future__ import annotations

import importlib
import importlib.resources
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import yaml

from understudy.errors import UserError, did_you_mean
from understudy.methods.contract import Method
from understudy.methods.info import MethodInfo

GROUP = "understudy.methods"
BUILT_IN = "understudy"

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_FILE_TARGET = re.compile(r"(.*?)([^/\\]+)\.py:([A-Za-z_]\w*)")


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
        if name not in self._entries and name.endswith(".py"):
            raise UserError(f"{name} is a file; name the class in it too: {name}:Class.")
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
    """A method by its name, or by where it lives; an unknown name is answered with near ones."""
    return load_method(name) if ":" in name else Registry.discover().get(name)


def load_method(target: str) -> Method:
    """A method by where it lives, registered or not: `package.module:Class`, `file.py:Class`."""
    if not (_FILE_TARGET.fullmatch(target) or _TARGET.fullmatch(target)):
        raise UserError(
            f"cannot read {target!r} as a method; write package.module:Class or file.py:Class."
        )
    place, _, class_name = target.rpartition(":")
    module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place, target)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        own = [n for n, v in vars(module).items() if isinstance(v, type)]
        raise UserError(
            f"module {module.__name__!r} has no class {class_name!r}; "
            f"{did_you_mean(class_name, own)}"
        )
    _check_shape(target, found)
    return cast(Method, found())


def _import_module(name: str, target: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(f"cannot import {name!r} for method {target!r}: {error}.") from error


def _import_file(path: Path) -> ModuleType:
    """A file as the module of its own name, its folder last on the import path.

    So other processes that get this import path find it.
    """
    file = path.expanduser().resolve()
    if not file.is_file():
        raise UserError(f"there is no method file {path}.")
    if not file.stem.isidentifier():
        raise UserError(f"{path} cannot be imported: rename it to letters, digits and _.")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    importlib.invalidate_caches()  # the file may be younger than the last look at its folder
    try:
        module = importlib.import_module(file.stem)
    except Exception as error:  # somebody's file may raise anything
        raise UserError(f"{path} cannot be imported: {type(error).__name__}: {error}.") from error
    if Path(getattr(module, "__file__", None) or "").resolve() != file:
        raise UserError(f"another module is called {file.stem!r} already; rename {path}.")
    return module


def _check_shape(target: str, found: type[Any]) -> None:
    """Refuse at the door what cannot be a method; `check-method` tests the rest."""
    if not isinstance(getattr(found, "info", None), MethodInfo):
        raise UserError(f"{target} is not a method: it needs `info`, a MethodInfo.")
    config = getattr(found, "Config", None)
    frozen = getattr(getattr(config, "__dataclass_params__", None), "frozen", False)
    if not (isinstance(config, type) and is_dataclass(config) and frozen):
        raise UserError(f"{target} is not a method: it needs `Config`, a frozen dataclass.")
    if not callable(getattr(getattr(found, "Output", None), "load", None)):
        raise UserError(f"{target} is not a method: it needs `Output`, the class that fit returns.")
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
