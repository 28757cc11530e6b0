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
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import yaml

from understudy.errors import UserError, home_expanded
from understudy.methods.contract import Method
from understudy.methods.info import MethodInfo
from understudy.plugins import Names, Plugin, built_in, class_in, import_for, installed, is_target

GROUP = "understudy.methods"

_FILE_TARGET = re.compile(r"(.*?)([^/\\]+)\.py:([A-Za-z_]\w*)")


class MethodEntry(Plugin):
    """Where a method lives: `target` is `package.module:Class`, `source` who ships it."""

    noun = "method"
    like = "dp-merf"


class Registry(Names[MethodEntry]):
    """Names of methods and where they live. A name is taken once and never replaced."""

    noun = MethodEntry.noun

    @staticmethod
    def discover() -> Registry:
        """The built-in methods, then those of installed packages."""
        return Registry([*built_in(MethodEntry, _listed()), *installed(MethodEntry, GROUP)])

    def entry(self, name: str) -> MethodEntry:
        """The entry of a name, which may be written in any case."""
        if name not in self and name.endswith(".py"):
            raise UserError(f"{name} is a file; name the class in it too: {name}:Class.")
        return super().entry(method_name(name))

    def get(self, name: str) -> Method:
        """The method itself; this is what imports it."""
        entry = self.entry(name)
        method = load_method(entry.target)
        if method.info.name != entry.name:
            raise UserError(
                f"method {entry.name!r} of {entry.source} calls itself {method.info.name!r}; "
                "info.name and the registered name must be the same."
            )
        return method


def method_name(words: str) -> str:
    """What a method is called however its name is written; where code lives stays as it is.

    >>> method_name("DP-MERF"), method_name("toy.py:Toy")
    ('dp-merf', 'toy.py:Toy')
    """
    return words if ":" in words or words.endswith(".py") else words.strip().lower()


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
    if not (_FILE_TARGET.fullmatch(target) or is_target(target)):
        raise UserError(
            f"cannot read {target!r} as a method; write package.module:Class or file.py:Class."
        )
    place, _, class_name = target.rpartition(":")
    module = (
        _import_file(Path(place))
        if place.endswith(".py")
        else import_for(place, f"method {target!r}")
    )
    found = class_in(module, class_name)
    _check_shape(target, found)
    return cast(Method, found())


def _import_file(path: Path) -> ModuleType:
    """A file as the module of its own name, its folder last on the import path.

    So other processes that get this import path find it.
    """
    file = home_expanded(path).resolve()
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


def _listed() -> Mapping[str, str]:
    text = importlib.resources.files("understudy.methods").joinpath("builtin.yaml").read_text()
    return cast(Mapping[str, str], yaml.safe_load(text))
